// Package cost measures what Redis pays for leases: to renew N locks one by one, in calls of
// 32 as rlock does, or by a client lease; to acquire a lock beside one; to take the locks of
// a dead client; and the memory of each.
//
// A cost is CPU time of the server's process by its own count (INFO cpu), reading and writing
// included, over so many of the same commands in one pipeline. Each is measured three times, in
// turns with all others, and the least counts, since what else runs on the machine only adds.
package cost
