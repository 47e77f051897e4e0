package core

import "github.com/go-rlock/rlock/internal/enum"

// The subscription of this client to its grants: a waiter begins it, and the lock ends it when nothing is left that needs it.

// A hearing is whether this client hears the messages of a channel.
type hearing uint8

const (
	deaf      hearing = iota // it does not listen
	asking                   // it subscribes
	listening                // it hears them
	refused                  // it cannot hear them
)

func (h hearing) String() string {
	return enum.Name(h, "hearing", "deaf", "asking", "listening", "refused")
}

// Subscribes reports whether the lock wants to be told of grants.
func (l *Lock) Subscribes() bool { return l.hears == asking || l.hears == listening }

// subscribe subscribes this client to its grants.
func (l *Lock) subscribe(now Now) {
	if l.hears == deaf {
		l.hears, l.patient = asking, now.Time.After(l.client.Patience)
		l.tell(Effect{Kind: Subscribe})
	}
}

// Listening says whether this client is told of grants. A message may have been lost before.
func (l *Lock) Listening(yes bool, now Now) {
	l.hears = refused
	if yes {
		l.hears = listening
	}
	l.doubtTickets(now)
	l.seekAll(now)
	l.settle(now)
}

// Deafened says that the connection of the subscription has ended. It is subscribed again by itself.
func (l *Lock) Deafened(now Now) {
	if l.hears == listening {
		l.hears, l.patient = asking, now.Time.After(l.client.Patience)
		l.seekAll(now) // they poll then
	}
}

// quiet ends the subscriptions when nothing is left that needs them.
func (l *Lock) quiet() {
	if l.Idle() {
		l.hears = deaf
		l.tell(Effect{Kind: Unsubscribe})
	}
}
