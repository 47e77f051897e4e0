// Package redisson runs Java's Redisson, the library whose locks rlock shares, so
// that tests have it on the other side of the same lock and benchmarks beside it.
//
//	test or benchmark              Java process
//	    | -- a line of JSON ------> |  one RedissonClient, some named threads
//	    | <-------- an answer ----- |
//
// The Java side is the Maven project in driver/, which is compiled into this
// package and built at first need, once for each version of Redisson, into the
// user's cache folder: nothing is written here. It needs a JDK and mvn, and
// network the first time; where they are missing the error is [ErrNoJava]. Beside the
// program lies an archive of its loaded classes, with which a process starts in half the time.
//
// The driver compiles with versions back to 3.17.7: fenced locks and shardedSubscriptionMode, which
// that has not, are called by reflection.
//
// A [Process] is one client of Redisson, and so one holder of locks, as an
// rlock.Client is. In it Redisson knows its callers by their thread: a [Thread]
// executes what it is told in order, and two threads contend.
//
//	        Start                       Close: shut down; held locks are left to expire
//	(none) -------> connected, idle ----------------------------------------------> (ended)
//	                     |   ^          Kill: SIGKILL                                  ^
//	                call |   | answer  ------------------------------------------------+
//	                     v   |
//	                   working
//
// The Java process ends with its input, so none is left when a test binary dies. A
// call that is under way when it ends fails with [ErrEnded]. What Redisson throws
// is an [*Exception].
package redisson
