// Package launch starts the processes of tests and benchmarks: servers, workers, which are the same program in another
// role, and programs in other languages. All of them end with this program, however it ends.
//
//	Start     one process, whose lines of output a function gets
//	Converse  one that is asked line by line
//	Suspend   stops it as an overloaded machine does, Resume lets it go on
//
// On Linux the kernel ends a process with its parent, and the interrupt key is for this program alone. Elsewhere a process
// gets the interrupt too, and one that reads its input ends with that.
package launch
