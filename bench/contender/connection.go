package contender

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

// defaultLease is that of the designs written here.
const defaultLease = 30 * time.Second

// connect opens the rueidis client of the floor and of the designs written here, with the
// settings of rlock's pipelined connection: no client-side cache, buffers of 64 KiB. The
// remaining differences to rlock are the lock, and the direct connection that rlock has for a lone caller.
func connect(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress:         []string{addr},
		ForceSingleClient:   true,
		DisableCache:        true,
		PipelineMultiplex:   -1,
		AlwaysPipelining:    true,
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
	})
}

// A party is a Client of the floor or of a design written here, to embed: its
// connection to Redis, its lease, and the names of its owners.
type party struct {
	redis        rueidis.Client
	lease        time.Duration
	milliseconds string // of the lease
	uuid         string
	owners       atomic.Uint64
}

// join connects p.
func (p *party) join(c Config) (err error) {
	p.lease = c.Lease
	if p.lease == 0 {
		p.lease = defaultLease
	}
	p.milliseconds = strconv.FormatInt(p.lease.Milliseconds(), 10)
	p.uuid = uuid.NewString()
	p.redis, err = connect(c.Addr)
	return err
}

// owner returns a new owner in the format of Redisson.
func (p *party) owner() string { return p.uuid + ":" + strconv.FormatUint(p.owners.Add(1), 10) }

// Close implements Client.
func (p *party) Close() error {
	p.redis.Close()
	return nil
}

var (
	errTaken   = errors.New("taken, and the floor does not wait")
	errNotOurs = errors.New("the key was not ours any more at unlock")
)

// unlocked returns Unlock's error for the reply of a script that deletes the owner's key.
func unlocked(reply rueidis.RedisResult) error {
	deleted, err := reply.AsInt64()
	if err == nil && deleted == 0 {
		return errNotOurs
	}
	return err
}
