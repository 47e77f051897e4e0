// Package inspect shows the state of locks, for operators: the state of any lock in Redis, and of
// one client.
//
//	inspect.Of(client).Lock(ctx, name)       Lock: the state of one lock in Redis
//	inspect.Of(client).Locks(ctx, pattern)   the names of the locks that are held
//	inspect.Of(client).Watch()               Watch: many locks, again and again, at little cost
//	inspect.Of(client).ForceUnlock(ctx, l)   releases the holders that Lock has shown
//	inspect.Of(client).Held()                []Held: the locks that this client holds
//	inspect.Of(client).Stats()               Stats: figures about the client
//	inspect.Of(client).ID()                  the beginning of its owners in Redis
//
// The command rlock prints the same by "rlock ls" and "rlock show", and releases by "rlock unlock".
package inspect
