/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the command is told of the limits of its box: a text that a person, or a model,
 * can read in the file that $NEXBOX_POLICY names. It holds what was asked for; the tier
 * adds what is its own (struct nx_launch).
 */

#include "core/spec.h"

/**
 * nx_note_write() - the text for one run
 * @spec: (borrowed) read
 * @out:  (borrowed) gets the lines; says whether memory ran out
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_note_write(const struct nx_spec *spec, struct nx_buf *out);
