// Package redistest starts what a test runs beside itself, a server of any sort or a process, and
// takes it away again.
//
// There are four kinds of server, and [Each] runs one test over all of them:
//
//	Embedded     miniredis in the test's own process, over pipes: no port, no
//	             network, works in a testing/synctest bubble ([Bubble])
//	Standalone   one redis-server
//	Sentinel     a primary, two replicas, three sentinels
//	Cluster      three primaries with a replica each
//
// [TLS] is a Standalone that also speaks TLS, with a [Certificate] of the test's own. A program,
// such as a benchmark, starts servers as a [Program].
//
// All but Embedded need a redis-server (or valkey-server) in PATH. Where there is none their tests
// are skipped; with RLOCK_REQUIRE_REDIS=1 in the environment they fail instead, so that a gate
// cannot pass because nothing ran. RLOCK_SERVER in the environment names another program, by its
// path, for every node and sentinel. Tests that use no server are then skipped. With -short no real
// server is used, unless one of these variables asks for it. A test for which the server is too old
// is skipped: [NeedMajor].
//
// For a network that fails see internal/network.
//
// # The life of a server
//
//	        Start                     Pause
//	(gone) -------> answers, empty ---------> paused (SIGSTOP)
//	   ^              |        ^                |    |
//	   +--------------+        +----------------+    |
//	   |   Stop (SIGKILL)            Resume          |
//	   +---------------------------------------------+
//	                      Stop
//
// A server belongs to the test that asked for it and is removed when that test
// ends. It listens on loopback only and writes nothing but its log and its
// configuration, below the test's own directory. Servers keep nothing on disk,
// so one that was stopped comes back empty, and a node of a Sentinel or Cluster
// takes what its primary has; `Standalone(t, "--appendonly", "yes")` keeps its
// data. Embedded keeps its data over a stop.
//
// # Processes
//
// [Start] starts a process, whose lines of output a function gets, and [Converse] one that is asked
// line by line. [Self] is the command that starts the same program in another role. Servers are
// such processes, too.
//
// All of them end with this program, however it ends. On Linux the kernel sees to that, and the
// interrupt key is for this program alone. Elsewhere a process gets the interrupt too, and one that
// reads its input ends with that.
//
// # Servers that are shared
//
// A Sentinel takes a second to start, a Cluster more than two, since no node of a
// Redis Cluster accepts writes in its first two. A package that uses
// [Each] often calls [Main] from its TestMain: the Sentinel and the Cluster
// that Each hands out are then started once, at the first need, and emptied
// before each use. Such a server refuses the methods that break it; a
// test that wants to do so asks for one of its own with [Sentinel] or [Cluster].
//
// # When something fails
//
// A constructor or fault that cannot do its work fails the test at once, with the end of the
// server's log if the server did not start. No fault returns before it has happened: after
// Stop the process is gone, after Failover every node and sentinel knows the new primary. The
// takeover that follows a Stop or Pause of a primary is not awaited.
package redistest
