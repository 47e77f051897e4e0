// Package idempotent is net/http middleware for the Idempotency-Key header
// (draft-ietf-httpapi-idempotency-key-header): a client that repeats a request with the same key
// gets the response of the first one, from any server, and the handler is not run a second time.
//
//	guard := idempotent.New(locks, idempotent.Options{Who: account}) // over the connections of a rlock.Client
//	defer guard.Close()
//	http.Handle("POST /payments", authenticate(guard.Handler(pay)))
//
// # What a request gets
//
//	no key, or one that is malformed                     400; without the header the handler, if Options.Optional is set
//	a body that is too long                              413
//	the same key while the first is being processed      its response, or 409 with Retry-After after Options.Wait
//	the same key later, the same request                 the kept response, from any server
//	the same key with another query, type or body        422, once the first has ended
//	after a response that is no result (see below)       the handler is run again
//	the server died in the handler: within the lease     it waits, or 409
//	... after the lease                                  500, the outcome is unknown, until Keep is over
//	... after the lease, with Options.Again              the handler is run again
//	the handler has panicked                             the same as after a death; the panic goes on as a once.PanicError,
//	                                                     or is logged as the server does if its request has left
//	the server was stopped past its lease                the response of its successor, if there is one, else 500, as
//	                                                     later requests; its own response is not kept
//	Redis refuses to store the response                  its own response; later requests get 500
//	Redis is away, or does not answer in Options.Wait    503 with Retry-After, and the handler is not run
//	the guard is closed while the handler runs           503 with Retry-After, or its response, as later requests
//
// A response is no result if its status asks the client to come again: 5xx, 408, 409, 423, 425 and
// 429. So a handler that answers 409 for a locked resource is run again. [Options].Result changes
// this for a status, and [NotDone] for one response. All other 4xx are results: a 404 is kept
// although the resource may exist by now.
//
// Errors are application/problem+json (RFC 9457). The same key of another client, or with another
// method, host or path, is another key; the host, without its port, and the path are as the client
// has sent them, also behind http.StripPrefix. The key is a string in quotes (RFC 8941), whose
// parameters are ignored, or the same without quotes, as most clients send a UUID.
//
// # How it works
//
// The request is a flight of package once, whose key is a hash of the client, the method, the host,
// the path and the key. Under the lock, before the handler, a guarded write marks that it has
// begun. The response is stored by the release of the lock, in one step, and sent to the requests
// that wait. A mark without a response, and without a holder of the lock, means that a handler did
// not end. If a connection breaks, or Redis is away, each run repeats these commands until they are
// answered: if its server lives, the outcome is known once Redis is back.
//
// # What it cannot do
//
// A server may die between the effect of a handler and the store of its response, and no store
// apart from the effect can tell on which side it died. So the request gets an unknown outcome or,
// with Again, the handler may run twice. Only a key in the database of the effect is exact: store
// [Key] there, as a unique column in the transaction of the effect; then set Again. Then Redis only
// saves time, and lets requests wait. It may forget in a failover, or by an eviction (use
// maxmemory-policy noeviction). An operator may find out the outcome of a request elsewhere:
// [Guard.Settle] and [Guard.Forget] note it.
//
//   - A handler goes on when its client has left, since the client may repeat the request. The
//     handler's context has the values of the request's, and ends with the loss of the lock. A
//     handler that ignores the end may overlap the next one.
//   - Options.Who must return a different text for each account. If two accounts have the same
//     text, a client of one reads a response of the other by guessing its key. Put authentication
//     and authorization before this middleware.
//   - Bodies and responses are held in memory, and have limits; there is no Flusher, no Hijacker
//     and no trailer. A response that is longer is passed on, and a later request gets 500.
//   - Set-Cookie, Date and fields of the connection are not kept, nor the fields of the handlers
//     around the guard, which set them for each request: what the handler has added to these is
//     added, and what it has set is set.
//   - A client that repeats a request must address the same host: at another name, or at the
//     address of a server, it is another request, which is processed.
//   - The fingerprint is of bytes: a client that encodes its JSON anew when it repeats a request
//     gets 422.
package idempotent
