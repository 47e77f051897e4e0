package contender

import "context"

// Broken always says yes. It is not one of All: with it the tests prove that the
// harness catches a lock that does not exclude.
func Broken() Contender {
	return Contender{
		Name:  "broken",
		About: "always says yes: the harness must report it",
		Wakes: "never sleeps",
		Key:   plain,
		Open:  func(Config) (Client, error) { return broken{}, nil },
	}
}

type broken struct{}

func (broken) Mutex(string) Mutex         { return broken{} }
func (broken) Close() error               { return nil }
func (broken) Lock(context.Context) error { return nil }
func (broken) Unlock() error              { return nil }
