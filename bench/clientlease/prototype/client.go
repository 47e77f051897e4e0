package prototype

import (
	"context"
	"crypto/sha1"
	_ "embed" // for the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/lease"
)

// ErrOver is returned when Redis does not have the client lease: it expired, or its key was
// deleted. All attached locks are lost.
var ErrOver = errors.New("the client lease is over")

// tick is that of rlock's wheel.
const tick = 10 * time.Millisecond

var (
	//go:embed scripts/acquire.lua
	acquireText string
	//go:embed scripts/attach.lua
	attachText string
	//go:embed scripts/release.lua
	releaseText string

	// Acquire, Attach and Release are the scripts; their arguments stand on top of them.
	Acquire = newScript(acquireText)
	Attach  = newScript(attachText)
	Release = newScript(releaseText)
)

// A Script is a text of Lua and its hash.
type Script struct{ Text, SHA string }

func newScript(text string) Script {
	sum := sha1.Sum([]byte(text))
	return Script{Text: text, SHA: hex.EncodeToString(sum[:])}
}

// Build returns the command that calls s by its hash.
func (s Script) Build(redis rueidis.Client, keys, args []string) rueidis.Completed {
	return redis.B().Evalsha().Sha1(s.SHA).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func (s Script) do(ctx context.Context, redis rueidis.Client, keys, args []string) rueidis.RedisResult {
	return redis.Do(ctx, redis.B().Eval().Script(s.Text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// Config is the configuration on which the clients of one lock must agree.
type Config struct {
	Lease    time.Duration // of a client, and of a lock that is not attached
	Backstop time.Duration // of the key of an attached lock
}

// A Client holds locks at one server, or in one slot of a Cluster. It is not safe for
// concurrent use.
type Client struct {
	redis  rueidis.Client
	config Config
	name   string
	epoch  int    // of the client lease: each has a key of its own
	key    string // of the client lease
	trust  lease.Trust
	holds  map[string]*hold
}

type hold struct {
	trust    lease.Trust // in its own lease
	doubtful bool        // an attach was sent and not answered
	attached bool
}

// Open makes a client of that name, which no other client may have, with a client lease.
func Open(ctx context.Context, redis rueidis.Client, name string, config Config) (*Client, error) {
	c := &Client{redis: redis, config: config, name: name, holds: make(map[string]*hold)}
	return c, c.Reopen(ctx)
}

// Reopen begins another client lease, after the last one has ended. Locks that were attached
// to that one stay lost.
func (c *Client) Reopen(ctx context.Context) error {
	c.epoch++
	c.key = fmt.Sprintf("rlock_client:%s:%d", c.name, c.epoch)
	for name, h := range c.holds {
		if h.attached || h.doubtful {
			delete(c.holds, name)
		}
	}
	c.trust = lease.Trust{}
	c.sent(&c.trust)
	err := c.redis.Do(ctx, c.redis.B().Set().Key(c.key).Value("1").PxMilliseconds(c.config.Lease.Milliseconds()).Build()).Error()
	if err == nil {
		c.trust.Confirmed()
	}
	return err
}

// Key returns the name of the client lease's key.
func (c *Client) Key() string { return c.key }

func (c *Client) owner() string { return c.name + ":1" }

func (c *Client) sent(t *lease.Trust) {
	t.Sent(time.Now(), c.config.Lease, lease.Drift(c.config.Lease, tick))
}

// Renew renews the client lease, and with it all attached locks. After [ErrOver] it never
// succeeds again before [Client.Reopen].
func (c *Client) Renew(ctx context.Context) error {
	c.sent(&c.trust)
	n, err := c.redis.Do(ctx, c.redis.B().Pexpire().Key(c.key).Milliseconds(c.config.Lease.Milliseconds()).Build()).AsInt64()
	switch {
	case err != nil:
		return err
	case n == 0:
		c.trust = lease.Trust{}
		return fmt.Errorf("%w: %s", ErrOver, c.key)
	}
	c.trust.Confirmed()
	return nil
}

// A Refusal names the holder of the lock.
type Refusal struct {
	Left        time.Duration // of its own lease, or of the client lease that the call named
	Owner       string
	ClientLease string // that the lock depends on, "" for none
}

// Acquire takes a lock that is free, or whose holder depends on the client lease named
// presumed, "" for none, which is over. Otherwise it returns why not.
func (c *Client) Acquire(ctx context.Context, name, presumed string) (*Refusal, error) {
	keys := []string{name}
	if presumed != "" {
		keys = append(keys, presumed)
	}
	h := new(hold)
	c.sent(&h.trust)
	result := Acquire.do(ctx, c.redis, keys, []string{millis(c.config.Lease), c.owner()})
	if err := result.Error(); rueidis.IsRedisNil(err) {
		h.trust.Confirmed()
		c.holds[name] = h
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	reply, err := result.ToArray()
	if err != nil || len(reply) != 3 {
		return nil, fmt.Errorf("unexpected reply to an acquire: %v, %w", reply, err)
	}
	left, err := reply[0].AsInt64()
	owner, err2 := reply[1].ToString()
	depends, err3 := reply[2].ToString()
	return &Refusal{time.Duration(left) * time.Millisecond, owner, depends}, errors.Join(err, err2, err3)
}

// Take is Acquire, and where a refusal names a client lease once more with that.
func (c *Client) Take(ctx context.Context, name string) (*Refusal, error) {
	refusal, err := c.Acquire(ctx, name, "")
	if err != nil || refusal == nil || refusal.ClientLease == "" {
		return refusal, err
	}
	return c.Acquire(ctx, name, refusal.ClientLease)
}

// Attach makes held locks depend on the client lease, and returns those that are lost.
func (c *Client) Attach(ctx context.Context, names ...string) (lost []string, err error) {
	keys, args := []string{c.key}, []string{millis(c.config.Backstop)}
	for _, name := range names {
		keys, args = append(keys, name), append(args, c.owner())
		if h := c.holds[name]; h != nil {
			h.doubtful = true
		}
	}
	replies, err := Attach.do(ctx, c.redis, keys, args).AsIntSlice()
	if rueidis.IsRedisNil(err) {
		c.trust = lease.Trust{}
		return nil, fmt.Errorf("%w: %s", ErrOver, c.key)
	} else if err != nil {
		return nil, err
	}
	for i, name := range names {
		if replies[i] == 0 {
			delete(c.holds, name)
			lost = append(lost, name)
		} else if h := c.holds[name]; h != nil {
			h.attached, h.doubtful = true, false
		}
	}
	return lost, nil
}

// Release gives a lock back, and reports whether Redis had it as this client's.
func (c *Client) Release(ctx context.Context, name string) (bool, error) {
	delete(c.holds, name)
	n, err := Release.do(ctx, c.redis, []string{name}, []string{c.owner()}).AsInt64()
	return n == 1, err
}

// Valid reports whether this client may believe now that it holds the lock.
func (c *Client) Valid(name string) bool {
	h, now := c.holds[name], time.Now()
	switch {
	case h == nil:
		return false
	case h.attached:
		return c.trust.Valid(now)
	case h.doubtful:
		return h.trust.Valid(now) && c.trust.Valid(now)
	}
	return h.trust.Valid(now)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
