/* SPDX-License-Identifier: MIT OR Apache-2.0 */
int main(void)
{
	return 0;
}
