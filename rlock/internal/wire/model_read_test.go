package wire_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// timeOf reads the answer to TIME, in milliseconds.
func (c *comparison) timeOf(reply any) server.Time {
	now := reply.([]any)
	s, _ := strconv.ParseInt(now[0].(string), 10, 64)
	us, _ := strconv.ParseInt(now[1].(string), 10, 64)
	at := s*1000 + us/1000
	if !c.on.exact() {
		at += c.offset.Milliseconds()
	}
	return server.Time(at)
}

// looks returns the commands that read all that is compared.
func (c *comparison) looks() [][]string {
	lock := []string{"HGETALL", modelLock}
	if c.model == server.Semaphore {
		lock = []string{"ZRANGE", modelLock, "0", "-1", "WITHSCORES"}
	}
	looks := [][]string{lock, {"PTTL", modelLock}, {"ZRANGE", c.keys.Queue(), "0", "-1"}, {"PTTL", c.keys.Queue()}, {"KEYS", "*"}}
	looks = append(looks, []string{"GET", c.keys.Extra()}, []string{"HGETALL", c.keys.Foreign()}, []string{"PTTL", c.keys.Foreign()})
	return append(looks, []string{"LRANGE", c.keys.FairQueue(), "0", "-1"}, []string{"ZSCORE", c.keys.FairTimes(), "rlock:0"})
}

var idOfOwner = regexp.MustCompile(`(-[0-9a-f]{12}):\d+`)

// read makes a snapshot of what Redis has after a command.
func (c *comparison) read(cmd core.Command, answer any, looks []any) (n snapshot) {
	left := func(ms int) { n.times = append(n.times, time.Duration(ms)*time.Millisecond) }
	all, _ := looks[0].([]any)
	ran := false
	if all, ok := answer.([]any); ok && cmd.Carries {
		ran, answer = all[0] == 1, all[2]
	}
	n.answer, n.times = c.answer(cmd, answer, func(uuid string) bool {
		return slices.ContainsFunc(all, func(field any) bool { return strings.HasPrefix(field.(string), uuid+":") })
	})
	if len(all) > 0 {
		left(looks[1].(int))
	}
	var fields []string
	for i := 0; i < len(all); i += 2 {
		fields = append(fields, all[i].(string)+" "+all[i+1].(string))
	}
	slices.Sort(fields)
	now := c.last
	for i, f := range fields {
		name, value, _ := strings.Cut(f, " ")
		switch {
		case name == "*": // how many permits owners have beside their first
		case c.model == server.Semaphore:
			ends, _ := strconv.ParseInt(value, 10, 64)
			if !c.on.exact() {
				ends += c.offset.Milliseconds()
			}
			left(int(max(ends-int64(now), 0)))
			fields[i] = name + " 1"
		case c.model == server.ReadWrite && name != "mode" && !strings.HasSuffix(name, ":write"):
			ttl := c.on.do([]string{"PTTL", c.keys.Extra() + ":" + name + ":rwlock_timeout:1"})[0].(int)
			left(max(ttl, 0))
		}
	}
	queue, _ := looks[2].([]any)
	if len(queue) > 0 {
		left(looks[3].(int))
	}
	n.words = append(fields, "queue")
	var marks []string
	for _, m := range queue {
		if m := m.(string); m[0] == '!' {
			marks = append(marks, m)
		} else {
			n.words = append(n.words, m)
		}
	}
	slices.Sort(marks)
	counter := "0"
	if c.fenced && looks[5] != nil {
		counter = looks[5].(string)
	}
	n.words = append(append(append(n.words, "marks"), marks...), "counter "+counter)
	n.words = append(n.words, c.readForeign(looks[6:], &n)...)
	var messages []string
	for _, m := range c.on.published() {
		messages = append(messages, idOfOwner.ReplaceAllString(m[0]+" "+m[1], "$1"))
	}
	n.words = append(append(n.words, "messages"), byChannel(messages)...)
	n.words = append(n.words, fmt.Sprintf("carried %v", ran))
	for _, key := range looks[4].([]any) {
		if key := key.(string); key != modelLock && key != c.keys.Queue() && key != c.keys.Extra() && key != c.keys.Foreign() && key != c.keys.FairQueue() && key != c.keys.FairTimes() && !strings.HasPrefix(key, c.keys.Extra()+":") {
			n.words = append(n.words, "unknown key "+key)
		}
	}
	return n
}

// answer writes the reply of a script as snapshotOf does. It returns the times in it, too.
func (c *comparison) answer(cmd core.Command, reply any, holds func(uuid string) bool) (text string, times []time.Duration) {
	span := func(ms any) time.Duration { return time.Duration(ms.(int)) * time.Millisecond }
	held := func(left bool, token any, others int) string {
		last, _ := token.(string)
		if last == "" {
			last = "0"
		}
		return fmt.Sprintf("left %v, holds, token %s, others %d", left, last, others)
	}
	denied := func(left bool, found int, ttl, owner any) string {
		name, _ := wire.CutMore(strings.TrimSuffix(owner.(string), ":write"))
		if name != "" {
			times = append(times, span(ttl))
		}
		if len(name) > 14 && name[14] != '8' {
			name = aForeignOne
		}
		return fmt.Sprintf("left %v, found %d, holder %s", left, found, c.holderText(cmd.Op, idOfOwner.ReplaceAllString(name, "$1"), holds))
	}
	switch all := reply.(type) {
	case error:
		if cmd.Op == core.Write && strings.HasPrefix(all.Error(), "RLOCK_FENCED") {
			return "lost", nil
		}
		return all.Error(), nil
	case nil:
		return held(false, nil, 0), nil
	case string:
		return held(false, all, 0), nil
	case int:
		if cmd.Op == core.Resume || cmd.Op == core.Write {
			if all == 0 {
				return "lost", nil
			}
			return held(false, nil, all-1), nil
		}
		return fmt.Sprintf("left %v", all > 0 && cmd.Op != core.Unmark), nil
	case []any:
		switch len(all) {
		case 1:
			if all[0] == 0 {
				return "lost", nil
			}
			return held(false, nil, all[0].(int)-1), nil
		case 2:
			return denied(false, 0, all[0], all[1]), times
		case 5, 6:
			if token, ok := all[4].(string); ok {
				text = held(all[0] != 0, token, 0)
			} else {
				text = denied(all[0] != 0, found(all[4]), all[1], all[2])
				if at, ok := all[4].([]any); ok && at[0] == -1 {
					text += fmt.Sprintf(", %d tickets", at[2])
				}
			}
			if len(all) > 5 {
				text += ", held back"
				times = append(times, span(all[5]))
			}
			if all[3].(int) > 0 {
				times = append(times, span(all[3]))
			}
			return text, times
		}
	}
	return fmt.Sprint("an answer of another form: ", reply), nil
}

// found returns where a step has found the ticket.
func found(reply any) int {
	if at, ok := reply.([]any); ok {
		return max(at[0].(int), 0)
	}
	return reply.(int)
}
