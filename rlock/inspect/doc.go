// Package inspect has the types of the state of locks, for operators: a client of package rlock
// returns them.
//
//	client.Inspect(ctx, name)      Lock: the state of one lock in Redis
//	client.Locks(ctx, pattern)     the names of the locks that are held
//	client.Held()                  []Held: the locks that this client holds
//	client.Stats()                 Stats: figures about the client
//
// The command rlock prints the same: "rlock ls" and "rlock show".
package inspect
