package goredis

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// common has the fields that all options of go-redis have.
type common struct {
	addrs       []string
	network     string
	db          int
	single      bool
	dialer      func(ctx context.Context, network, addr string) (net.Conn, error)
	tls         *tls.Config
	onConnect   func(ctx context.Context, cn *redis.Conn) error
	protocol    int
	clientName  string
	noIdentity  bool
	credentials credentials

	dialTimeout, readTimeout, writeTimeout time.Duration
}

// option returns the option with these fields.
func (c common) option() (rueidis.ClientOption, error) {
	if c.onConnect != nil {
		return refuse("OnConnect is set, and rueidis runs no code on a new connection: %s", without)
	}
	standard := defaults()
	option := rueidis.ClientOption{
		InitAddress:       append([]string(nil), c.addrs...),
		SelectDB:          c.db,
		ForceSingleClient: c.single,
		DialCtxFn:         c.dial(),
		TLSConfig:         c.tls,
		AlwaysRESP2:       c.protocol == 2,
		ClientName:        c.clientName,
		AuthCredentialsFn: c.credentials.provider(),
		Dialer:            net.Dialer{Timeout: timeout(c.dialTimeout, standard.DialTimeout)},
		ConnWriteTimeout:  max(timeout(c.readTimeout, standard.ReadTimeout), timeout(c.writeTimeout, standard.WriteTimeout)),
	}
	if option.AuthCredentialsFn == nil {
		option.Username, option.Password = c.credentials.fixed()
	}
	if c.noIdentity {
		option.ClientSetInfo = rueidis.DisableClientSetInfo
	}
	return option, nil
}

// networkOf returns the network of an address, which go-redis takes for a path if it begins with a
// slash.
func networkOf(network, addr string) string {
	switch {
	case network != "":
		return network
	case strings.HasPrefix(addr, "/"):
		return "unix"
	default:
		return "tcp"
	}
}

// dial returns the function that opens a connection, or nil if the function of rueidis does the
// same.
func (c common) dial() func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	switch {
	case c.dialer != nil:
		return func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if dialer.Timeout > 0 { // go-redis bounds a Dialer by its DialTimeout, too
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, dialer.Timeout)
				defer cancel()
			}
			return c.dialer(ctx, c.network, addr)
		}
	case c.network != "tcp":
		return func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			if config != nil {
				return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, c.network, addr)
			}
			return dialer.DialContext(ctx, c.network, addr)
		}
	default:
		return nil
	}
}

// defaults returns the options of a client that was made without any. The options of a client in
// use have timeouts also if none were set: those of defaults count as not set.
var defaults = sync.OnceValue(func() *redis.Options {
	client := redis.NewClient(&redis.Options{})
	defer client.Close() // no connection is open
	return client.Options()
})

// timeout returns 0, for the default of rlock, if d is the default of go-redis or means that there
// is no timeout.
func timeout(d, standard time.Duration) time.Duration {
	if d <= 0 || d == standard {
		return 0
	}
	return d
}
