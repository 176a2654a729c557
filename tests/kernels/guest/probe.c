/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What busybox has no word for, or none to rely on: the level of Landlock, a
 * subvolume, a server that listens when its starter goes on, the clock of files.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LANDLOCK_CREATE_RULESET 444
#define VERSION 1u

static int landlock(const char *unused)
{
	long abi = syscall(LANDLOCK_CREATE_RULESET, NULL, 0ul, VERSION);

	(void)unused;
	printf("%ld\n", abi < 0 ? -(long)errno : abi);
	return 0;
}

static int subvolume(const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };

	(void)snprintf(args.name, sizeof(args.name), "%s", name);
	return ioctl(open(".", O_RDONLY), BTRFS_IOC_SUBVOL_CREATE, &args) < 0;
}

union address {
	struct sockaddr any;
	struct sockaddr_un local;
	struct sockaddr_in ip;
};

/* "@name" is an abstract socket, anything else a port of the loopback. */
static int make_socket(const char *name, union address *address, socklen_t *ret_size)
{
	*address = (union address){ .any.sa_family = *name == '@' ? AF_UNIX : AF_INET };
	if (*name == '@') {
		memcpy(address->local.sun_path + 1, name + 1, strlen(name + 1));
		*ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	} else {
		address->ip.sin_port = htons((uint16_t)atoi(name));
		address->ip.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		*ret_size = sizeof(address->ip);
	}
	return socket(address->any.sa_family, SOCK_STREAM, 0);
}

/* Goes on in the background once it listens, and for as long as a case lasts. */
static int listen_at(const char *name)
{
	union address address;
	socklen_t size;
	int fd = make_socket(name, &address, &size);
	int on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, &address.any, size) < 0 || listen(fd, 4) < 0) {
		perror(name);
		return 1;
	}
	if (fork() > 0)
		return 0;
	(void)close(0);
	(void)close(1);
	(void)close(2);
	(void)sleep(20);
	return 0;
}

static int connect_to(const char *name)
{
	union address address;
	socklen_t size;
	int fd = make_socket(name, &address, &size);

	if (connect(fd, &address.any, size) < 0) {
		printf("connect: %s\n", strerror(errno));
		return 1;
	}
	puts("reached");
	return 0;
}

/* Writes @name twice as fast as it can; tells whether the change time moved. */
static int stamps(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT, 0644);
	struct stat first;
	struct stat second;
	int equal = 0;

	for (int i = 0; i < 100; i++) {
		if (write(fd, "a", 1) < 0 || fstat(fd, &first) < 0 || write(fd, "b", 1) < 0 ||
		    fstat(fd, &second) < 0)
			return 1;
		equal += first.st_ctim.tv_nsec == second.st_ctim.tv_nsec;
	}
	printf("%d of 100 pairs of writes have one stamp\n", equal);
	return 0;
}

static int attributes(const char *name)
{
	int taken = setxattr(name, "user.probe", "", 0, 0) == 0;

	puts(taken ? "takes attributes" : strerror(errno));
	return !taken;
}

static const struct {
	const char *word;
	int (*run)(const char *);
} words[] = {
	{ "landlock", landlock },  { "subvolume", subvolume }, { "listen", listen_at },
	{ "connect", connect_to }, { "stamps", stamps },       { "attributes", attributes },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(argv[1], words[i].word) == 0)
			return words[i].run(argc > 2 ? argv[2] : "");
	return 2;
}
