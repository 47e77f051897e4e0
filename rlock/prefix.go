package rlock

import "strings"

// inRedis returns the key of a lock. An empty name stays one that no lock can have.
func (c *Client) inRedis(name string) string {
	if name == "" || c.prefix == "" {
		return name
	}
	return c.prefix + name
}

// named returns the name of the lock with that key, and the key if it has another prefix.
func (c *Client) named(key string) string { return strings.TrimPrefix(key, c.prefix) }

// literal escapes the characters with a meaning in the patterns of Redis.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
