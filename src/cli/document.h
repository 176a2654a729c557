/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/* An outcome, or a report, as a JSON document on a descriptor: --json and --status-fd. */

#include <nexbox/nexbox.h>
#include <stdbool.h>

#include "text.h"

/**
 * nx_cli_document_check_fd() - whether a descriptor of the caller's can take a document
 * @fd:        its number
 * @complaint: filled when it cannot
 *
 * Makes it close-on-exec, unless it is one of 0 to 2.
 */
bool nx_cli_document_check_fd(int fd, struct nx_cli_text *complaint);

/**
 * nx_cli_document_write() - write the document and a newline
 * @outcome: (borrowed)
 * @fd:      where to
 * @flags:   enum nexbox_json_flags
 *
 * What goes wrong is said on stderr and nowhere else: see the comment inside.
 */
void nx_cli_document_write(const struct nexbox_outcome *outcome, int fd, uint32_t flags);

/** nx_cli_report_write() - the same for a report about the history */
void nx_cli_report_write(const struct nexbox_report *report, int fd);

/** nx_cli_box_list_write() - the same for a list of boxes */
void nx_cli_box_list_write(const struct nexbox_boxes *list, int fd);
