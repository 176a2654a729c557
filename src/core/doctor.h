/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What this host can give a workspace. Nothing is looked up: every part is tried, and
 * every way to run is run.
 */

#include "platform/platform.h"

/**
 * struct nx_diagnosis - the public one, and what it points to
 * @public: first, so that the public pointer is the whole's
 * @arena:  strings
 * @checks, @trials: of @public
 */
struct nx_diagnosis {
	struct nexbox_diagnosis public;
	struct nx_arena arena;
	struct nexbox_check *checks;
	struct nexbox_trial *trials;
};

/**
 * nx_diagnose() - see nexbox_diagnose()
 * @options:       (borrowed)
 * @platform:      (borrowed)
 * @ret_diagnosis: (transfer full) freed by nx_diagnosis_free()
 * @err:           (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID, NEXBOX_E_DENIED, NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_diagnose(const struct nexbox_doctor_options *options, const struct nx_platform *platform,
                struct nx_diagnosis **ret_diagnosis, struct nexbox_error *err);

/**
 * nx_diagnosis_write_json() - see nexbox_diagnosis_write_json()
 * @diagnosis: (borrowed)
 * @write:     gets each piece
 * @userdata:  (optional) its first argument
 *
 * Return: 0, or the errno that @write answered.
 * Context: any thread.
 */
int nx_diagnosis_write_json(const struct nexbox_diagnosis *diagnosis,
                            int (*write)(void *, const void *, size_t), void *userdata);

/**
 * nx_diagnosis_free() - free it
 * @diagnosis: (optional)
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_diagnosis *nx_diagnosis_free(struct nx_diagnosis *diagnosis);
NX_DEFINE_AUTO(diagnosis);
