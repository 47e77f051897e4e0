package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// A login that a server refuses. Behind Sentinel there are two logins, which have fields of their
// own in the config.

// ofServer and ofSentinel name the server that refused a login, and the fields of its login.
var (
	ofServer   = login{"the server", "Config.Redis"}
	ofSentinel = login{"the Sentinel", "Config.Redis.Sentinel"}
)

// A login is a user name and a password for a server.
type login struct{ server, fields string }

// refused returns the error for a reply that refuses the login, nil for any other reply.
func (l login) refused(message string) error {
	switch {
	case strings.HasPrefix(message, "NOAUTH"):
		return fmt.Errorf("%w: %s wants a password, and %s has none: %s", ErrNoPermission, l.server, l.fields, message)
	case strings.HasPrefix(message, "WRONGPASS"):
		return fmt.Errorf("%w: %s has a wrong user name or password: %s", ErrNoPermission, l.fields, message)
	}
	return nil
}

// loginOf returns the login that was refused while a client with the option connected. rueidis
// returns the reply and not its sender, so the Sentinels are asked again: one that accepts its
// login shows that the primary refused.
func loginOf(o rueidis.ClientOption) login {
	if o.Sentinel.MasterSet == "" {
		return ofServer
	}
	o.Username, o.Password, o.TLSConfig = o.Sentinel.Username, o.Sentinel.Password, o.Sentinel.TLSConfig
	o.SelectDB, o.ClientName, o.ForceSingleClient, o.Sentinel = 0, "", true, rueidis.SentinelOption{}
	found := ofServer
	for _, address := range o.InitAddress {
		one := new(connections).watch(o)
		one.InitAddress = []string{address}
		sentinel, err := rueidis.NewClient(one)
		if err == nil {
			sentinel.Close()
			return ofServer
		}
		if errors.Is(Explain(err), ErrNoPermission) {
			found = ofSentinel
		}
	}
	return found
}
