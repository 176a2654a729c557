/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Signals that reach nex-box while a box runs. They are not acted upon here:
 * each is passed on as one byte through a pipe, and the library, which reads
 * the other end, knows what it means for the command.
 */

#include <stdbool.h>
#include <stdint.h>

/**
 * nx_cli_signals_open() - pass signals on from here to the end of the process
 *
 * A signal that the caller has ignored (nohup) stays ignored.
 *
 * Return: the end of the pipe for nexbox_run_options.control_fd; -1 with errno.
 */
int nx_cli_signals_open(void);

/**
 * nx_cli_signals_run_is_over() - nothing is left to pass signals to
 *
 * The handlers stay: the run is decided, and a late control-C must not turn the
 * exit status of something that was promoted into 130. It does end a write that
 * blocks, see nx_cli_signals_ask_to_end().
 */
void nx_cli_signals_run_is_over(void);

/** nx_cli_signals_ask_to_end() - one of INT, TERM, HUP, QUIT came after the run */
bool nx_cli_signals_ask_to_end(void);

/** nx_cli_signals_on_stop() - for nexbox_run_options.on_stop: sleep until SIGCONT */
void nx_cli_signals_on_stop(void *userdata, int32_t signal_number);
