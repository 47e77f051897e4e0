package rlock_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/assert"
)

// A calmGuest is a client of Redisson that only polls, and takes the lock now and then.
type calmGuest struct {
	*calmSpell
	redis   *foreigner
	random  *rand.Rand
	owner   string
	reads   bool
	section time.Duration
	pause   time.Duration // the longest between two sections
	channel string        // to which it publishes, "" for none
}

// guests returns how many contend as well.
func (c *calmSpell) guests() int {
	if c.kind.shared == nil && c.kind.name != "plain" {
		return 0
	}
	return c.random.IntN(3)
}

func (c *calmSpell) newGuest(i int) *calmGuest {
	g := &calmGuest{
		calmSpell: c,
		redis:     c.guest(),
		random:    c.fork(),
		owner:     fmt.Sprint(foreignOwner, i),
		reads:     c.kind.shared != nil && c.random.IntN(3) > 0,
		section:   oneOf(c.random, 5*time.Millisecond, 50*time.Millisecond),
		pause:     oneOf(c.random, 50*time.Millisecond, time.Second, 10*time.Second),
	}
	if g.reads {
		g.section = oneOf(c.random, g.section, c.longRead)
	}
	if c.random.IntN(2) == 0 {
		g.channel = channel
		if c.kind.shared != nil {
			g.channel = "redisson_rwlock:{" + key + "}"
		}
	}
	c.settings += fmt.Sprintf(" [guest reads %v, sections %v, pauses %v, publishes %v]", g.reads, g.section, g.pause, g.channel != "")
	return g
}

// What Redisson does, without its nested levels.
const (
	guestTakes = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], ARGV[1], 1)
		return redis.call('pexpire', KEYS[1], 30000)`
	guestWrites = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
		return redis.call('pexpire', KEYS[1], 30000)`
	guestReads = `
		if redis.call('hget', KEYS[1], 'mode') == 'write' then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
		redis.call('set', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:1', 1, 'px', 30000)
		return redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), 30000))`
	guestLeaves = `
		redis.call('hdel', KEYS[1], ARGV[1], ARGV[1] .. ':write')
		redis.call('del', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:1')
		local left = redis.call('hkeys', KEYS[1])
		if #left > 1 or left[1] and left[1] ~= 'mode' then
			return 0
		end
		redis.call('del', KEYS[1])
		return ARGV[2] == '' and 0 or redis.call('publish', ARGV[2], '0')`
)

func (g *calmGuest) run() {
	for time.Now().Before(g.end) {
		time.Sleep(upTo(g.random, g.pause))
		began := time.Now()
		for !g.take() {
			time.Sleep(time.Millisecond + upTo(g.random, 127*time.Millisecond))
		}
		if g.polls { // else one that was never met waits until the lock is free
			g.waited("guest", time.Since(began))
		}
		g.enter(g.reads)
		time.Sleep(g.section)
		g.leave(g.reads)
		assert.NoError(g.t, g.redis.eval(guestLeaves, g.owner, g.channel).Error())
	}
}

func (g *calmGuest) take() bool {
	script := guestTakes
	switch {
	case g.reads:
		script = guestReads
	case g.kind.shared != nil:
		script = guestWrites
	}
	got, err := g.redis.eval(script, g.owner).AsInt64()
	return assert.NoError(g.t, err) && got == 1
}
