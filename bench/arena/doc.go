// Package arena runs measurements: it starts Redis, the networks in front of it
// and the processes of each contender, and reads from Redis what they cost it.
//
//	      +-- INFO before and after ------------------------------+
//	      |                                                       v
//	Arena +-- Job --> worker 1 ... n (processes) --> [proxy] --> redis-server
//	      |              |
//	      +<-- Report ---+
//
// Nothing of it runs while a window is measured but a sleep. When a worker fails
// or hangs, it is ended and the result says so; the others go on.
package arena
