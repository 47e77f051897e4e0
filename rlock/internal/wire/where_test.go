package wire

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

// A red lock refuses two clients of one server, and names servers by where they are.
func TestClientsOfOneServerAreKnown(t *testing.T) {
	at := func(master string, db int, addresses ...string) *Redis {
		return &Redis{options: Options{Redis: rueidis.ClientOption{
			InitAddress: addresses, SelectDB: db, Sentinel: rueidis.SentinelOption{MasterSet: master},
		}}}
	}
	dials := at("", 0, "a:1")
	dials.options.Redis.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, nil }
	one := at("", 0, "b:2", "a:1")
	for _, c := range []struct {
		other  *Redis
		shares bool
		where  string
	}{
		{one, true, "a:1,b:2"},
		{at("", 0, "a:1"), true, "a:1"},
		{at("", 3, "b:2"), true, "b:2 database 3"},
		{at("", 0, "c:3"), false, "c:3"},
		{at("set", 0, "a:1"), false, "a:1 set"},
		{dials, false, "a:1"}, // it may be anywhere
	} {
		assert.Equal(t, c.shares, one.Shares(c.other), c.where)
		assert.Equal(t, c.shares, c.other.Shares(one), c.where)
		assert.Equal(t, c.shares && c.other.options.Redis.SelectDB == 0, one.SharesKeys(c.other), c.where)
		assert.Equal(t, c.where, c.other.Where())
	}
	assert.True(t, dials.Shares(dials))
}
