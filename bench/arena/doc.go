// Package arena runs measurements: it starts Redis, the networks in front of it and the
// processes of each contender, and reads their cost from Redis.
//
//	      +-- INFO before and after ------------------------------+
//	      |                                                       v
//	Arena +-- Job --> worker 1 ... n (processes) --> [proxy] --> redis-server
//	      |              |
//	      +<-- Report ---+
//
// During the window of a measurement the arena only sleeps. A worker that fails or hangs is
// ended, and the result has the error; the others go on.
package arena
