/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/secrets.h"

#include <stddef.h>

const char *const nx_secrets[] = {
	/* keys */
	".ssh",
	".gnupg",
	".password-store",
	".local/share/keyrings",
	".pki",
	/* clouds and clusters */
	".aws",
	".azure",
	".config/gcloud",
	".boto",
	".oci",
	".config/doctl",
	".config/hcloud",
	".fly",
	".kube",
	".config/helm",
	".terraform.d/credentials.tfrc.json",
	".vault-token",
	/* registries and hosts of code */
	".docker/config.json",
	".config/containers/auth.json",
	".netrc",
	".git-credentials",
	".config/git/credentials",
	".config/gh",
	".config/glab-cli",
	".config/hub",
	".npmrc",
	".yarnrc.yml",
	".pypirc",
	".cargo/credentials",
	".cargo/credentials.toml",
	".gem/credentials",
	".m2/settings.xml",
	".gradle/gradle.properties",
	".nuget/NuGet/NuGet.Config",
	".composer/auth.json",
	".config/pip/pip.conf",
	".config/pypoetry/auth.toml",
	/* databases */
	".pgpass",
	".my.cnf",
	".mongorc.js",
	/* agents */
	".claude",
	".claude.json",
	".codex",
	".gemini",
	".config/github-copilot",
	".cursor",
	".aider.conf.yml",
	".config/openai",
	/* browsers and mail */
	".mozilla",
	".thunderbird",
	".config/google-chrome",
	".config/chromium",
	".config/BraveSoftware",
	".config/microsoft-edge",
	/* what was typed */
	".bash_history",
	".zsh_history",
	".python_history",
	NULL,
};
