/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/guard_rows.h"

#define DIRENV "direnv loads it when a shell comes by"
#define MISE "mise runs what it says when a shell comes by"
#define SHELL "a shell runs it when it starts"
#define VSCODE "the editor runs programs that it names"
#define JETBRAINS "the IDE runs what it says"
#define CONTAINER "the editor runs its commands on the host to make the container"
#define VIM "vim runs it when it starts in that folder"
#define EMACS "emacs evaluates it when a file beside it is opened"
#define DEBUGGER "the debugger runs it when it starts in that folder"
#define INTERPRETER "an interpreter runs it when it starts in that folder"
#define AGENT "a coding agent obeys it, and runs the hooks and servers that it names"
#define HOOKS "git runs what is in it by way of core.hooksPath or a hook manager"
#define COMMIT "a git hook runs what it says at every commit"
#define SESSION "it is run or obeyed when the user logs in"

const struct nx_guard_row nx_guard_rows[] = {
	/* When a shell comes by. asdf's .tool-versions only names versions. */
	{ ".envrc", DIRENV },
	{ ".autoenv", SHELL },
	{ ".autoenv.zsh", SHELL },
	{ "mise.toml", MISE },
	{ "mise.*.toml", MISE },
	{ ".mise.toml", MISE },
	{ ".mise.*.toml", MISE },
	{ ".mise/**", MISE },
	{ ".config/mise/**", MISE },
	{ ".config/mise.toml", MISE },
	{ ".rtx.toml", MISE },

	/*
	 * Editors. Which keys of their settings name a program is every extension's own
	 * to say (interpreters, formatters, language servers), so the whole file counts.
	 */
	{ ".vscode/tasks.json", "the editor may run it when the folder is opened" },
	{ ".vscode/settings.json", VSCODE },
	{ ".vscode/launch.json", VSCODE },
	{ ".vscode/mcp.json", AGENT },
	{ "*.code-workspace", VSCODE },
	{ ".zed/settings.json", VSCODE },
	{ ".zed/tasks.json", VSCODE },
	{ ".zed/debug.json", VSCODE },
	{ ".helix/config.toml", VSCODE },
	{ ".helix/languages.toml", VSCODE },
	{ ".fleet/run.json", VSCODE },
	{ ".fleet/settings.json", VSCODE },
	{ "*.sublime-project", VSCODE },
	{ ".idea/workspace.xml", JETBRAINS },
	{ ".idea/runConfigurations/**", JETBRAINS },
	{ ".idea/startup.xml", JETBRAINS },
	{ ".idea/watcherTasks.xml", JETBRAINS },
	{ ".idea/tools/**", JETBRAINS },
	{ ".run/*.xml", JETBRAINS },
	{ ".devcontainer/**", CONTAINER },
	{ ".devcontainer.json", CONTAINER },
	{ ".exrc", VIM },
	{ ".vimrc", VIM },
	{ ".gvimrc", VIM },
	{ ".nvimrc", VIM },
	{ ".nvim.lua", VIM },
	{ ".lvimrc", VIM },
	{ ".local.vimrc", VIM },
	{ ".dir-locals.el", EMACS },
	{ ".dir-locals-2.el", EMACS },

	/* Debuggers and interpreters that read their start-up file where they stand. */
	{ ".gdbinit", DEBUGGER },
	{ ".gdbearlyinit", DEBUGGER },
	{ ".lldbinit", DEBUGGER },
	{ ".pdbrc", DEBUGGER },
	{ ".pdbrc.py", DEBUGGER },
	{ ".Rprofile", INTERPRETER },
	{ ".Renviron", INTERPRETER },
	{ ".ghci", INTERPRETER },
	{ ".ocamlinit", INTERPRETER },
	{ ".octaverc", INTERPRETER },
	{ ".irbrc", INTERPRETER },
	{ ".pryrc", INTERPRETER },

	/* Coding agents: settings, hooks, servers, and the commands that they offer. */
	{ ".claude/**", AGENT },
	{ ".claude.json", AGENT },
	{ ".cursor/**", AGENT },
	{ ".mcp.json", AGENT },
	{ ".gemini/**", AGENT },
	{ ".codex/**", AGENT },
	{ ".agents/**", AGENT },
	{ ".aider.conf.yml", AGENT },
	{ ".continue/**", AGENT },
	{ ".windsurf/**", AGENT },
	{ ".roo/**", AGENT },
	{ ".roomodes", AGENT },
	{ ".kiro/**", AGENT },
	{ ".amazonq/**", AGENT },
	{ ".opencode/**", AGENT },
	{ "opencode.json", AGENT },
	{ "opencode.jsonc", AGENT },
	{ ".qwen/**", AGENT },
	{ ".junie/**", AGENT },
	{ ".crush.json", AGENT },
	{ "crush.json", AGENT },

	/* Git hooks that lie elsewhere than in .git/hooks, and what their managers run. */
	{ ".husky/**", HOOKS },
	{ ".githooks/**", HOOKS },
	{ ".git-hooks/**", HOOKS },
	{ ".pre-commit-config.yaml", COMMIT },
	{ "lefthook.yml", COMMIT },
	{ "lefthook.yaml", COMMIT },
	{ ".lefthook.yml", COMMIT },
	{ "lefthook-local.yml", COMMIT },
	{ ".lefthook/**", COMMIT },
	{ ".overcommit.yml", COMMIT },
	{ ".lintstagedrc*", COMMIT },
	{ "lint-staged.config.*", COMMIT },

	/* For a workspace that is, or holds, a home directory. */
	{ ".bashrc", SHELL },
	{ ".bash_profile", SHELL },
	{ ".bash_login", SHELL },
	{ ".bash_logout", SHELL },
	{ ".bash_aliases", SHELL },
	{ ".profile", SHELL },
	{ ".zshrc", SHELL },
	{ ".zshenv", SHELL },
	{ ".zprofile", SHELL },
	{ ".zlogin", SHELL },
	{ ".zlogout", SHELL },
	{ ".config/fish/**", SHELL },
	{ ".ssh/**", "it says who may log in, and what ssh runs" },
	{ ".gitconfig", "git runs programs that it names" },
	{ ".config/git/**", "git runs programs that it names" },
	{ ".config/autostart/**", SESSION },
	{ ".config/systemd/user/**", SESSION },
	{ ".config/environment.d/**", SESSION },
	{ ".xprofile", SESSION },
	{ ".xsessionrc", SESSION },
	{ ".pam_environment", SESSION },
	{ NULL, NULL },
};

#define PYTHON "python runs it at every start"
#define INSTALLER "the package manager runs what it names"
#define BUILD "the build tool runs what it names, beside the build"
#define CI "continuous integration runs it after a push"
#define ORDERS "a coding agent reads it as orders"
#define ATTRIBUTES "it chooses which configured filters and drivers git runs"

/*
 * A manifest is guarded when a command that runs at an install changes in it
 * (package.json), or as a whole.
 */
const struct nx_guard_row nx_guard_strict_rows[] = {
	{ "site-packages/*.pth", PYTHON },
	{ "dist-packages/*.pth", PYTHON },
	{ "site-packages/*customize.py", PYTHON },
	{ "site-packages/*customize/**", PYTHON },
	{ "dist-packages/*customize.py", PYTHON },
	{ "sitecustomize.py", PYTHON },
	{ "usercustomize.py", PYTHON },
	{ "sitecustomize/**", PYTHON },
	{ "usercustomize/**", PYTHON },
	{ "pyvenv.cfg", "it says which interpreter runs" },
	{ ".npmrc", INSTALLER },
	{ ".yarnrc", INSTALLER },
	{ ".yarnrc.yml", INSTALLER },
	{ ".yarn/plugins/**", INSTALLER },
	{ ".yarn/releases/**", INSTALLER },
	{ ".pnpmfile.cjs", INSTALLER },
	{ "pnpm-workspace.yaml", INSTALLER },
	{ "binding.gyp", INSTALLER },
	{ "composer.json", INSTALLER },
	{ ".cargo/config", BUILD },
	{ ".cargo/config.toml", BUILD },
	{ "rust-toolchain", BUILD },
	{ "rust-toolchain.toml", BUILD },
	{ ".mvn/**", BUILD },
	{ "gradle/wrapper/**", BUILD },
	{ ".bazelrc", BUILD },
	{ ".github/workflows/**", CI },
	{ ".github/actions/**", CI },
	{ ".gitea/workflows/**", CI },
	{ ".forgejo/workflows/**", CI },
	{ ".gitlab-ci.yml", CI },
	{ ".circleci/**", CI },
	{ ".travis.yml", CI },
	{ ".drone.yml", CI },
	{ ".woodpecker/**", CI },
	{ ".woodpecker.yml", CI },
	{ ".buildkite/**", CI },
	{ ".teamcity/**", CI },
	{ "azure-pipelines.yml", CI },
	{ "bitbucket-pipelines.yml", CI },
	{ "appveyor.yml", CI },
	{ "Jenkinsfile", CI },
	{ "AGENTS.md", ORDERS },
	{ "CLAUDE.md", ORDERS },
	{ "CLAUDE.local.md", ORDERS },
	{ "GEMINI.md", ORDERS },
	{ ".cursorrules", ORDERS },
	{ ".windsurfrules", ORDERS },
	{ ".clinerules", ORDERS },
	{ ".clinerules/**", ORDERS },
	{ ".github/copilot-instructions.md", ORDERS },
	{ ".gitattributes", ATTRIBUTES },
	{ ".git/info/attributes", ATTRIBUTES },
	{ NULL, NULL },
};

const char *const nx_guard_dependencies[] = {
	"node_modules", "bower_components", "site-packages", "dist-packages", "vendor", "Pods",
	NULL,
};

/*
 * From git-config(1) of 2.39 to 2.52, git-lfs and git-annex. An alias needs no "!"
 * to run a program: "rebase -x …" and "grep -O…" will do.
 */
const struct nx_guard_key nx_guard_keys[] = {
	{ "alias", "*", NX_GUARD_ANY },
	{ "annex", "*command", NX_GUARD_ANY },
	{ "annex", "*hook", NX_GUARD_ANY },
	{ "browser", "cmd", NX_GUARD_ANY },
	{ "browser", "path", NX_GUARD_ANY },
	{ "core", "alternaterefscommand", NX_GUARD_ANY },
	{ "core", "askpass", NX_GUARD_ANY },
	{ "core", "editor", NX_GUARD_ANY },
	{ "core", "fsmonitor", NX_GUARD_SWITCH },
	{ "core", "gitproxy", NX_GUARD_ANY },
	{ "core", "hookspath", NX_GUARD_ANY },
	{ "core", "pager", NX_GUARD_ANY },
	{ "core", "sshcommand", NX_GUARD_ANY },
	{ "core", "worktree", NX_GUARD_LEAVES },
	{ "credential", "helper", NX_GUARD_ANY },
	{ "diff", "command", NX_GUARD_ANY },
	{ "diff", "external", NX_GUARD_ANY },
	{ "diff", "textconv", NX_GUARD_ANY },
	{ "difftool", "cmd", NX_GUARD_ANY },
	{ "difftool", "path", NX_GUARD_ANY },
	{ "filter", "clean", NX_GUARD_ANY },
	{ "filter", "process", NX_GUARD_ANY },
	{ "filter", "smudge", NX_GUARD_ANY },
	{ "gc", "recentobjectshook", NX_GUARD_ANY },
	{ "gpg", "defaultkeycommand", NX_GUARD_ANY },
	{ "gpg", "program", NX_GUARD_ANY },
	{ "guitool", "*", NX_GUARD_ANY },
	{ "hook", "*", NX_GUARD_ANY },
	{ "imap", "tunnel", NX_GUARD_ANY },
	{ "include", "path", NX_GUARD_ANY },
	{ "includeif", "path", NX_GUARD_ANY },
	{ "init", "templatedir", NX_GUARD_ANY },
	{ "instaweb", "*", NX_GUARD_ANY },
	{ "interactive", "difffilter", NX_GUARD_ANY },
	{ "lfs", "clean", NX_GUARD_ANY },
	{ "lfs", "path", NX_GUARD_ANY },
	{ "lfs", "smudge", NX_GUARD_ANY },
	{ "lfs", "standalonetransferagent", NX_GUARD_ANY },
	{ "man", "cmd", NX_GUARD_ANY },
	{ "man", "path", NX_GUARD_ANY },
	{ "merge", "driver", NX_GUARD_ANY },
	{ "mergetool", "cmd", NX_GUARD_ANY },
	{ "mergetool", "path", NX_GUARD_ANY },
	{ "pager", "*", NX_GUARD_SWITCH },
	{ "protocol", "allow", NX_GUARD_ANY },
	{ "remote", "pushurl", NX_GUARD_HELPER },
	{ "remote", "receivepack", NX_GUARD_ANY },
	{ "remote", "uploadpack", NX_GUARD_ANY },
	{ "remote", "url", NX_GUARD_HELPER },
	{ "remote", "vcs", NX_GUARD_ANY },
	{ "sendemail", "cccmd", NX_GUARD_ANY },
	{ "sendemail", "headercmd", NX_GUARD_ANY },
	{ "sendemail", "sendmailcmd", NX_GUARD_ANY },
	{ "sendemail", "smtpserver", NX_GUARD_ANY },
	{ "sendemail", "tocmd", NX_GUARD_ANY },
	{ "sequence", "editor", NX_GUARD_ANY },
	{ "submodule", "update", NX_GUARD_BANG },
	{ "submodule", "url", NX_GUARD_HELPER },
	{ "svn", "authorsprog", NX_GUARD_ANY },
	{ "svn", "authors-prog", NX_GUARD_ANY },
	{ "tar", "command", NX_GUARD_ANY },
	{ "trailer", "cmd", NX_GUARD_ANY },
	{ "trailer", "command", NX_GUARD_ANY },
	{ "uploadpack", "packobjectshook", NX_GUARD_ANY },
	{ "url", "insteadof", NX_GUARD_HELPER },
	{ "url", "pushinsteadof", NX_GUARD_HELPER },
	{ "web", "browser", NX_GUARD_ANY },
	{ NULL, NULL, NX_GUARD_ANY },
};
