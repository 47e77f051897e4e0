package goredis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// credentials are the fields of options that say who logs in. The last field that is set applies.
type credentials struct {
	username, password string
	fromFunc           func() (username, password string)
	fromContext        func(ctx context.Context) (username, password string, err error)
	streaming          auth.StreamingCredentialsProvider
}

// fixed returns the user name and the password. Without a password go-redis does not log in.
func (c credentials) fixed() (username, password string) {
	if c.password == "" {
		return "", ""
	}
	return c.username, c.password
}

// provider returns the function that rueidis calls for each new connection, or nil if there is no
// provider.
func (c credentials) provider() func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	switch {
	case c.streaming != nil:
		s := &stream{provider: c.streaming}
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) { return s.current() }
	case c.fromContext != nil:
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			username, password, err := c.fromContext(ctx)
			return login(username, password), err
		}
	case c.fromFunc != nil:
		return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return login(c.fromFunc()), nil
		}
	default:
		return nil
	}
}

// patience is the time that a provider may take. rueidis gives it no context.
const patience = 5 * time.Second

func login(username, password string) (a rueidis.AuthCredentials) {
	a.Username, a.Password = credentials{username: username, password: password}.fixed()
	return a
}

// refresh is the time between two logins of a connection with the credentials of a stream. A
// provider replaces a token minutes before it ends.
const refresh = 30 * time.Second

// A stream is the subscription to a streaming provider. It begins with the first connection.
type stream struct {
	provider auth.StreamingCredentialsProvider

	subscribing sync.Mutex // protects subscribed, and is held while Subscribe runs
	subscribed  bool

	mu   sync.Mutex // protects last
	last auth.Credentials
}

var errNoCredentials = errors.New("goredis: the streaming provider has returned no credentials")

// current returns the newest credentials.
func (s *stream) current() (rueidis.AuthCredentials, error) {
	if err := s.subscribe(); err != nil {
		return rueidis.AuthCredentials{}, err
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last == nil {
		return rueidis.AuthCredentials{}, errNoCredentials
	}
	a := login(last.BasicAuth())
	a.RefreshAfter = time.Now().Add(refresh)
	return a, nil
}

// subscribe subscribes to the provider, unless an earlier call has.
func (s *stream) subscribe() error {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	if s.subscribed {
		return nil
	}
	first, _, err := s.provider.Subscribe(s)
	if err != nil {
		return err
	}
	s.subscribed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil { // OnNext may have been called meanwhile, with newer credentials
		s.last = first
	}
	return nil
}

// OnNext sets the credentials that connections use from now on.
func (s *stream) OnNext(c auth.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = c
}

// OnError is called if the provider could not renew the credentials. The last credentials stay.
func (s *stream) OnError(error) {}
