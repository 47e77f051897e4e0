package rlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A step is one command about a lock's queue: see scripts/queue.lua.
type step struct {
	leave string // the member that leaves, "" for none
	join  string // the member that joins, likewise
	look  string // the member that is looked for, likewise

	lease   time.Duration // that a look asks for
	reserve uint64        // how many fencing tokens a grant reserves, 0 for none
}

func (n *name) step(c *Client, s step) call {
	words := [12]string{n.key, n.queue, n.window, n.channel}
	at := 4
	add := func(word string) { words[at] = word; at++ }
	if n.extra != "" {
		add(n.extra)
	}
	keys := at
	family, number := c.family, ""
	switch k := n.kind(); {
	case k.fenced:
		number = strconv.FormatUint(max(s.reserve, 1), 10)
	case k.many:
		number = strconv.Itoa(n.permits)
	}
	if !n.kind().foreign {
		family = family[:1]
	}
	add(family)
	add(c.milliseconds(s.lease))
	add(number)
	add(flag(s.leave != ""))
	add(flag(s.join != ""))
	for _, member := range [...]string{s.leave, s.join, s.look} {
		if member != "" {
			add(member)
		}
	}
	return call{script: n.kind().step, inline: inline{words: words, keys: keys, n: at}}
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// An answer is what Redis says to an acquire or to a step.
type answer struct {
	left int64 // of a step: whether the member that left was there

	granted bool
	counter uint64 // of the fencing tokens, if granted; 0 for a lock without
	ttl     int64  // of the holder's lease in milliseconds, if not granted; -1 for none
	holder  string // its owner, if not granted; "" for none
	window  int64  // milliseconds that the guests' turn goes on, negative if it is not
	place   int64  // in the queue: 0 none, 1 some, 2 the first, 3 the first that gives way to readers

	refused  error // the grant does not count, and why: too few replicas have it
	released bool  // and Redis has taken it back
}

// acquired reads what Redis says to the tenure's acquire.
func (t *tenure) acquired(result rueidis.RedisResult) (a answer, err error) {
	a.window = -1
	if t.tokens != nil {
		if counter, err := result.ToString(); err == nil {
			a.granted = true
			a.counter, err = parseCounter(counter, t.tokens.reserved)
			return a, err
		}
	}
	denial, err := result.ToArray()
	if rueidis.IsRedisNil(err) && t.tokens == nil {
		return answer{granted: true}, nil
	}
	if err == nil && len(denial) < 2 {
		err = fmt.Errorf("an acquire was answered with %d values, not 2", len(denial))
	}
	if err == nil {
		a.ttl, err = denial[0].AsInt64()
	}
	if err == nil {
		a.holder, err = denial[1].ToString()
	}
	return a, err
}

// stepped reads what Redis says to a step in which t joined or was looked for.
func (t *tenure) stepped(result rueidis.RedisResult) (a answer, err error) {
	values, err := result.ToArray()
	if err == nil && len(values) < 5 {
		err = fmt.Errorf("a step was answered with %d values, not 5", len(values))
	}
	if err != nil {
		return a, err
	}
	for i, number := range []*int64{&a.left, &a.ttl, nil, &a.window} {
		if number != nil && err == nil {
			*number, err = values[i].AsInt64()
		}
	}
	if err == nil {
		a.holder, err = values[2].ToString()
	}
	if err != nil {
		return a, err
	}
	token, notGranted := values[4].ToString()
	if notGranted != nil {
		a.place, err = values[4].AsInt64()
		return a, err
	}
	a.granted = true
	if t.tokens != nil {
		a.counter, err = parseCounter(token, t.tokens.reserved)
	}
	return a, err
}

// parseCounter reads the last of n fencing tokens.
func parseCounter(text string, n uint64) (uint64, error) {
	last, err := strconv.ParseUint(text, 10, 63)
	if err == nil && last < n {
		err = fmt.Errorf("a grant of %d tokens was answered with %d", n, last)
	}
	return last, err
}

// A notice is what a client is told about one of its tickets.
type notice struct {
	granted  bool   // the ticket has the lock; else it is the first behind the guests
	lock     string // the lock's name
	ticket   string // the text of its tenure
	counter  uint64 // of the fencing tokens, 0 for none
	reserved uint64 // how many of them are the ticket's
}

// parseNotice reads a message on the client's channel of a lock. Anybody may publish
// there, so that it may be anything.
func parseNotice(message string) (n notice, ok bool) {
	switch {
	case strings.HasPrefix(message, "?"):
		n.ticket, n.lock, ok = strings.Cut(message[1:], " ")
		return n, ok
	case !strings.HasPrefix(message, "+"):
		return n, false
	}
	words := strings.SplitN(message[1:], " ", 4)
	if len(words) < 4 {
		return n, false
	}
	n = notice{granted: true, ticket: words[0], lock: words[3]}
	if words[1] != "" {
		counter, err := strconv.ParseUint(words[1], 10, 63)
		reserved, err2 := strconv.ParseUint(words[2], 10, 63)
		if err == nil && err2 == nil && reserved > 0 && reserved <= counter {
			n.counter, n.reserved = counter, reserved
		}
	}
	return n, true
}
