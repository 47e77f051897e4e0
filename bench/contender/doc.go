// Package contender puts the locks that are compared behind one interface, one small file
// each. Peers are configured as their own documentation recommends, older designs are written
// from their published description (each file names it), and the floor is the lower bound.
//
//	Contender --Open--> Client (one process's worth) --Mutex--> Mutex (one goroutine's handle)
//
// A contender that fails says so: an error from Lock or Unlock is counted and
// shown, never hidden and never retried here.
package contender
