package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func errEnded(at time.Time) error {
	return fmt.Errorf("%w at %s", ErrLeaseEnded, at.Format(time.TimeOnly))
}

// lose ends the hold: the local queue is free, and its head asks Redis at once.
func (t *tenure) lose(why error) {
	r := t.room
	r.tenure = nil
	r.escaped = true
	if len(t.levels) > 0 { // else it lingered, and the loss is nobody's
		r.shard.lost = append(r.shard.lost, t.lostLevels(t.levels, why))
	}
	r.wakeHead()
}

// An ending is what has to be told of levels that ended by loss or by Close.
type ending struct {
	room     *room
	levels   []Level // nobody changes them any more
	at       time.Time
	why      error // nil: by Close
	severity slog.Level
}

// lostLevels remembers that the levels were lost.
func (t *tenure) lostLevels(levels []Level, why error) ending {
	r := t.room
	e := ending{r, levels, time.Now(), why, slog.LevelDebug} // the end of a fixed lease is what was asked for
	for _, l := range levels {
		r.shard.counts.lostOne(l.way, l.lossReason(why))
		cause := errLost(r.name, l.Owner, why)
		if !l.Kept() && errors.Is(why, ErrLeaseEnded) {
			l.Until = e.at // a little before its time, as every lease that is trusted
		} else {
			e.severity = slog.LevelWarn
		}
		if l.hold != nil {
			l.hold.lost = cause
		}
		if l.told() {
			r.client.Losses.Add(r.name.lossKey(l.Owner), l, cause)
		}
	}
	return e
}

func errLost(n *Name, o Owner, why error) error {
	return fmt.Errorf("rlock: lock %q of owner %s: %w: %w", n.Key, o, ErrLost, why)
}

func errClosed(n *Name, o Owner) error {
	return fmt.Errorf("rlock: lock %q of owner %s: %w", n.Key, o, wire.ErrClosed)
}

// announce tells the holders, the Observer and the log. It is called once, without the
// mutex.
func (e ending) announce() {
	for _, l := range e.levels {
		if l.hold != nil {
			l.hold.Lose(l.hold.lost)
		}
	}
	e.tell()
	if e.room.client.Closed.Load() {
		return
	}
	n, first := e.room.name, e.levels[0].Owner
	e.room.client.Config.Logger.Log(context.Background(), e.severity, "rlock: lock lost",
		"lock", n.Key, "owner", first, "cause", errLost(n, first, e.why))
}

// abandon ends the hold because the client closes.
func (t *tenure) abandon() ending {
	for _, l := range t.levels {
		t.room.shard.counts.closed(l.way)
		if l.hold != nil {
			l.hold.lost = errClosed(t.room.name, l.Owner)
		}
	}
	now := time.Now()
	t.drop(now)
	return ending{room: t.room, levels: t.levels, at: now}
}

// tell tells of the levels that ended. Of one that was lost the keeper must not wait for
// the hook; one that Close has released is told by Close.
func (e ending) tell() {
	c, n := e.room.client, e.room.name
	if !c.Observer.On() {
		return
	}
	for i := range e.levels {
		l := &e.levels[i]
		if l.way == ByNesting || l.hold.isPart() {
			continue
		}
		ctx := context.Background()
		if l.hold != nil {
			ctx = context.WithoutCancel(l.hold.Context())
		}
		if e.why == nil {
			c.Observer.Released.Tell(ctx, c.closedLevel(n, l, e.at, errClosed(n, l.Owner)))
			continue
		}
		lost := c.closedLevel(n, l, e.at, errLost(n, l.Owner, e.why))
		lost.Reason = l.lossReason(e.why)
		c.Observer.Later(ctx, c.Observer.Lost, lost)
	}
}

// lossReason says why the level was lost.
func (l *Level) lossReason(why error) LossReason {
	switch {
	case errors.Is(why, errGone):
		return LostKeyGone
	case errors.Is(why, errForced):
		return LostForced
	case errors.Is(why, ErrLeaseEnded) && !l.Kept():
		return LostLeaseEnded
	}
	return LostUnrenewed
}
