// Package once gives callers the result of a function, and not a lock. If callers in any number of
// processes ask for a key at the same time, one of them runs its function, and all get the result.
//
//	group := once.New(locks, once.Options{}) // over the connections of a rlock.Client
//	defer group.Close()
//	token, shared, err := group.Do(ctx, "token:"+account, refresh)
//
// Twenty processes whose token ends at the same time refresh it once. [As] has typed values.
//
// # The rule
//
// A caller that asks at time t gets a value that was stored after t, by the clock of Redis, or a
// value that is kept at t ([Options].Keep). It gets no value whose function began before a
// [Group.Forget] that had returned by t. Messages may be late, and a value stays in Redis for
// callers that lost the message. So a value is accepted or refused by two numbers: the time of its
// store, which grows with each run, and an upper bound of Redis' clock at the call. The bound errs
// to one side. If a caller asked less than a round trip before the store, or less than 1 % of the
// time for which its process had waited, the value is refused, and one more function runs. No
// caller gets a value that is older than its question. The value is stored after the call, but the
// function may have read its data before. With [Fresh] the function begins after the call.
//
// # How it works
//
// The callers of a process are one flight, which waits for the lock of that name, or for a value
// from its holder. The flight that has the lock runs the function of one of its callers, under the
// watchdog. Then one command ([rlock.Hold.ReleaseWith]) stores the value if the lock still has the
// hold, takes all waiting flights out of the queue, sends each of them the value, and releases the
// lock. A lone run takes two commands. A kept value takes one command, and no lock: the first
// command looks for a value before it takes the lock.
//
// # Failure
//
// If the process that runs a function dies, the next flight in the queue has the lock when the
// lease is over, and runs. A process that was paused past its lease stores nothing, and its callers
// get its successor's value. No function is run twice for one caller. An error goes to the caller
// whose function returned it, and the next caller runs its own function, unless the error is marked
// with [ForAll]. A panic is a [PanicError]. If messages are lost, flights look within two seconds.
// If the answer to the store is lost, the flight takes the lock again, and then stores the value
// unless Redis has it, or a newer one. If a Redis without memory refuses a value, the callers of
// this process get it, and the next flight runs its own function; with Finish the value is stored
// once there is memory. A failover may lose the lock and the value together: then a function runs
// again.
//
// # State in Redis
//
// For the key k: the lock k with its queue, and the hash "{k}:once" ("k::once" if k has a brace),
// which expires after Keep, and ten seconds at least. Do not use the lock k for anything else:
// while another owner holds it all callers wait. [rlock.Config].Prefix is put before a key, as
// before the name of a lock: all processes need the same prefix, and should have the same Options.
// A user of Redis that may publish on the channels of the client can forge a value.
package once
