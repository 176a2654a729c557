/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/note.h"

#include <inttypes.h>

static void add_workspace(const struct nx_spec *spec, struct nx_buf *out)
{
	nx_buf_printf(out,
	              "Workspace: '%s'. You work on a private copy-on-write view of it: write what "
	              "you like. ",
	              nx_quote(spec->workspace));
	if (!(spec->options->flags & NEXBOX_RUN_COMMIT)) {
		nx_buf_puts(out, "The changes are reported and then forgotten; the real one stays as "
		                 "it is.\n");
		return;
	}
	nx_buf_puts(out, "If the command exits 0");
	for (size_t i = 0; i < spec->options->n_commit_on; i++)
		nx_buf_printf(out, ", %u", (unsigned int)spec->options->commit_on[i]);
	nx_buf_puts(out, ", all changes are applied to the real one; else none is. Changes to files "
	                 "that the host runs by itself (git hooks and configuration, .envrc, "
	                 "settings of editors and agents) are refused.\n");
}

static void add_net(const struct nx_spec *spec, struct nx_buf *out)
{
	if (spec->options->flags & NEXBOX_RUN_NET_HOST)
		nx_buf_puts(out, "Network: the host's.\n");
	else
		nx_buf_puts(out,
		            "Network: none. Connections and name lookups fail however often they "
		            "are tried (to allow it: --allow-net true).\n");
}

static void add_grants(const struct nx_spec *spec, uint32_t kind, const char *words,
                       struct nx_buf *out)
{
	const char *separator = words;

	for (size_t i = 0; i < spec->n_grants; i++) {
		if (spec->grants[i].kind != kind)
			continue;
		nx_buf_printf(out, "%s'%s'", separator, nx_quote(spec->grants[i].path));
		separator = ", ";
	}
	if (separator != words)
		nx_buf_puts(out, ".\n");
}

static void add_limit(const char *format, uint64_t value, size_t *n, struct nx_buf *out)
{
	if (value == 0)
		return;
	nx_buf_puts(out, (*n)++ ? ", " : "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	nx_buf_printf(out, format, value);
#pragma GCC diagnostic pop
}

static void add_limits(const struct nx_spec *spec, struct nx_buf *out)
{
	const struct nx_limits *limits = &spec->limits;
	size_t n = 0;

	nx_buf_puts(out, "Limits: ");
	add_limit("everything is killed %" PRIu64 " ms after the start", spec->options->timeout_ms,
	          &n, out);
	add_limit("%" PRIu64 " bytes of memory", limits->memory_bytes, &n, out);
	add_limit("%" PRIu64 " processes and threads", limits->pids, &n, out);
	add_limit("%" PRIu64 " thousandths of a processor", limits->cpus_milli, &n, out);
	add_limit("%" PRIu64 " ms of processor time", limits->cpu_time_ms, &n, out);
	add_limit("%" PRIu64 " bytes of changes", limits->disk_bytes, &n, out);
	nx_buf_puts(out, n ? ".\n" : "none were set.\n");
}

void nx_note_write(const struct nx_spec *spec, struct nx_buf *out)
{
	nx_buf_puts(out, "You run in a nex-box, a sandbox. These are its rules for this run.\n\n");
	add_workspace(spec, out);
	add_net(spec, out);
	add_limits(spec, out);
	add_grants(spec, NEXBOX_GRANT_WRITE, "Writable, and for real: ", out);
	add_grants(spec, NEXBOX_GRANT_COW, "Writable, and thrown away: ", out);
	add_grants(spec, NEXBOX_GRANT_READ, "Readable, where it would not be: ", out);
	add_grants(spec, NEXBOX_GRANT_HIDE, "Hidden: ", out);
	nx_buf_puts(out,
	            "Credentials in the home directory are hidden; variables that carry them are "
	            "not set (to give one: --read PATH, --env NAME).\n"
	            "What is not named here can be read as usual, and not be written to "
	            "(to allow it: --write PATH, or --cow PATH).\n"
	            "Mounting, new namespaces, kernel modules, other users' processes: "
	            "refused.\n");
}
