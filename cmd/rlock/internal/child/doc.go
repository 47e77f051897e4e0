// Package child runs one command as a child of this process, so that it can be ended with all that
// it started.
//
// On Unix the command has a process group of its own. If this process is in the foreground of a
// terminal, the group takes its place there, so that the command can read from the terminal and
// Ctrl-C reaches it, and gives it back at the end. A command that is suspended with Ctrl-Z
// continues at once: it would hold its lock for as long as it is forgotten.
//
// A process that the command leaves behind in its group is a part of it: [Process.Gone] is closed
// when the last of them has ended. One that began a session of its own (setsid, a daemon) has left
// the group. On Linux the orphans become children of this process, which collects them, as the
// process with the id 1 of a container has to; and the kernel kills the command if this process is
// killed itself.
//
// The package collects every child of the process. So a process runs one command with it, and
// starts no child in another way.
//
// On other systems the command is a plain child: only the command itself can be ended, and only by
// killing it.
package child
