// Package wire is what a client of rlock says to Redis, and what Redis answers: the scripts with
// their keys, arguments and replies, the faults, and the connections. It takes commands of package
// core ([Exchange]), and reads each reply once, as one that core knows (reply.go). It knows nothing
// of goroutines that wait and of locks that are held: package driver does.
//
// docs/protocol.md has every key, channel, message and rule.
//
//	Open ──► Redis ──► Carry, CarryAll    commands of package core, and their answers
//	           │       Do, DoAll          calls of scripts: what they cost is counted
//	           │       Send               one by itself, over a connection of its own if nothing else is in flight
//	           │       Survey             commands that only read, repeated while it helps
//	           │       Limits, Start      slots in rueidis' ring; work whose caller may leave
//	           │       Generation, Sent   whether a connection has ended since
//	           └─────► Stop, Close
//
// # What an error means
//
// [Diagnose] sorts errors into three faults: Never (the command was not executed, and waiting cures
// nothing), NotNow (it was not executed, and waiting may cure it), and Unknown (it may have been
// executed, or may still be). After an Unknown the same command may be sent again, but for a
// guarded write. docs/protocol.md says what each command does if it is executed once more, also
// after its answer.
//
// # Concurrency and failure
//
// The methods of a [Redis] may be called concurrently. A server that is silent delays only those
// commands that go to it: each node has limits of its own for the commands in flight, those of
// releases apart from the others, so that a release never waits for an acquire. After Close nothing
// is left running.
package wire

//go:generate go run golang.org/x/tools/cmd/stringer@v0.52.0 -output names.go -type Fault,RedissonPolls,PubSub,Fate
