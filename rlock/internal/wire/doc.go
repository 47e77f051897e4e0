// Package wire is what a client of rlock says to Redis, and what Redis answers: the scripts with
// their keys, arguments and replies, the meaning of errors, and the connections. It takes commands
// of package core ([Exchange]), and turns each reply into one of core's (reply.go). Package driver
// has the goroutines that wait and the locks that are held.
//
// docs/protocol.md has every key, channel, message and rule.
//
//	Open ──► Redis ──► Carry, CarryAll    commands of package core, and their answers
//	           │       Do, DoAll          calls of scripts: what they cost is counted
//	           │       Send               one call, over the direct connection if nothing else is in flight
//	           │       Survey             commands that only read, repeated while that may help
//	           │       Limits, Start      the bound of commands in flight; work whose caller may leave
//	           │       Generation, Sent   whether the connection of a command has ended
//	           └─────► Stop, Close
//
// # What an error means
//
// [Diagnose] sorts errors into three diagnoses: Never (the command was not executed, and a retry is
// of no use), NotNow (it was not executed, and a retry may succeed), and Unknown (it may have been
// executed, or may still be). After an Unknown the same command may be sent again, but for a
// guarded write. docs/protocol.md says what each command does if it is executed once more, also
// after its answer.
//
// # Concurrency and failure
//
// The methods of a [Redis] may be called concurrently. A server that is silent delays only those
// commands that go to it: each node has limits of its own for the commands in flight, and releases
// have their own limit, so that a release never waits for an acquire. After Close nothing is left
// running.
package wire

//go:generate go run golang.org/x/tools/cmd/stringer@v0.52.0 -output names.go -type Diagnosis,RedissonPolls,PubSub,Fate
