// Package pubsub wakes many waiters over few Redis subscriptions.
//
// A [Hub] keeps at most one server-side subscription per channel however many [Subscription]s there
// are, and one connection per node however many channels, beside the connection for commands. It
// does not interpret messages: a message is a hint to look again, and so is every moment at which a
// message may have been missed.
//
// # How to wait without missing a wake
//
//	changed := make(chan struct{}, 1)
//	s := hub.Listen(channel, func(string) {
//		select {
//		case changed <- struct{}{}:
//		default:
//		}
//	})
//	defer s.Close()
//	for !look() {
//		select {
//		case <-s.C():          // messages may have been missed
//		case <-changed:
//		case <-time.After(d):  // pub/sub is at most once: always have a fallback
//		case <-ctx.Done():
//			return ctx.Err()
//		}
//	}
//
// The first wake comes when the server has confirmed the subscription. A waiter that looks after
// this wake, and then sleeps until the next wake or message, cannot miss a message that was
// published in between. That is how other libraries lose wake-ups (Redisson issue 1763). After a
// reconnect or a failover the next confirmation is a wake again, since messages were lost meanwhile
// (Redisson resubscribes and wakes no waiter).
//
// # The life of a channel
//
//	           Listen        confirmation             last Close              Linger
//	(none) ------------> asked ---------> confirmed -------------> lingering -------> left
//	   ^                 |  ^    wake      |  ^   ^                 |   |              | |
//	   |         refusal |  |              |  |   +-----------------+   |              | |
//	   |            wake |  |              |  |          Listen         |              | |
//	   |                 |  +--------------+  +-------------------------+--------------+ |
//	   |                 v    connection lost, slot moved, failover     |                |
//	   |              refused                                           |                |
//	   |                 | Linger after the last Close                  |                |
//	   +-----------------+----------------------------------------------+----------------+
//	                                 the connection is renewed or lost
//
// [Hub.Confirmed] is true in the states confirmed and lingering.
//
// The hub never unsubscribes, since rueidis ends the process if a server refuses UNSUBSCRIBE (BUSY,
// while a script of any client runs for too long). A channel that is left stays subscribed until
// its connection ends, and is confirmed at once if it is needed again. A connection on which
// channels are left is replaced by another one: 10 times Linger after a channel was left, or as
// soon as a thousand more channels are left than needed. The needed channels move to the new
// connection: each stays confirmed, and is woken. A connection without needed channels is closed
// after Linger.
//
// # Failures
//
//   - The connection is lost: nothing is confirmed from then on. It is opened
//     again after 1 ms, later at most every 500 ms, and all channels that have a
//     Subscription are subscribed again. Each confirmation is a wake. A server that
//     is full (maxclients) is asked every 30 s while no waiter needs a message: see
//     [Hub.ListenPlain].
//   - The server is silent: the client's pings find that (see Config.Client), and
//     the connection counts as lost.
//   - The server refuses a channel: [Subscription.Refused] says so, its waiters
//     have to poll. Other channels are not disturbed.
//   - The server is loading, busy, or its cluster is down: it is asked again
//     every 250 ms.
//   - Sentinel fails over: the hub follows the client to the new primary within
//     250 ms. It does not wait until the old primary closes its connections, which
//     it keeps for some 10 s after a planned failover.
//   - The client's commands and the messages have different servers, since their address leads
//     elsewhere: the hub compares run ids (INFO) once for each connection, and when
//     [Hub.CheckServer] is called, and subscribes anew until they are equal: at once, after a
//     second, and each time after twice as long, up to 30 s. Not in a Cluster, and not if a server
//     refuses INFO.
//   - The connection that should replace another cannot be opened, or is refused a
//     channel: the other one stays, and a replacement is tried again after 10
//     times Linger. If a thousand more channels are left than needed, the
//     connection is closed and opened again.
//   - A cluster slot moves, or its primary fails: Redis ends the subscription, or
//     the connection ends. The hub asks the nodes until one accepts and says it is
//     a primary. It can reach only nodes that the client knows; a client learns of
//     a new one by any command for such a slot, or by its ShardsRefreshInterval.
//
// # Cost
//
// One connection and one goroutine per node in use (two connections for a moment, when one replaces
// the other), no goroutine or timer per channel, and nothing at all while nothing is subscribed.
// Channels that are asked for while a command is under way share the next one, so that ten thousand
// channels are confirmed in a few round trips. A message costs one map lookup.
package pubsub
