// Package child runs one command as a child of this process, so that it can be ended with all that
// it started.
//
// On Unix the command has a process group of its own. If this process is in the foreground of a
// terminal, the group takes that place until the command ends, so that the command can read from
// the terminal and Ctrl-C reaches it. A command that is suspended with Ctrl-Z continues at once: it
// would hold its lock for as long as its user forgets it.
//
// A process that the command leaves behind in its group is a part of the command: [Process.Gone] is
// closed when the last process of the group has ended. A process that began a session of its own
// (setsid, a daemon) has left the group. On Linux orphans become children of this process, which
// collects them, as the process with the id 1 of a container has to; and the kernel kills the
// command if this process is killed.
//
// The package collects every child of the process. So a process runs one command with it, and
// starts no child in another way.
//
// On other systems the command is a plain child: only the command itself can be ended, and only by
// killing it.
package child
