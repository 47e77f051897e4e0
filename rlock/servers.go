package rlock

import (
	"fmt"
	"slices"
	"strings"
)

// where returns the addresses that the client was given, and what else tells its keys
// from those of other clients with these.
func (c *Client) where() string {
	option := c.config.Redis
	addresses := slices.Clone(option.InitAddress)
	if c.config.Client != nil {
		for address := range c.redis.Nodes() {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	where := strings.Join(addresses, ",")
	if option.Sentinel.MasterSet != "" {
		where += " " + option.Sentinel.MasterSet
	}
	if option.SelectDB != 0 {
		where += fmt.Sprintf(" database %d", option.SelectDB)
	}
	return where
}

// sharesServer reports whether both clients are known to have the same server, in
// whatever database. Those that dial in a way of their own may be anywhere.
func (c *Client) sharesServer(other *Client) bool {
	a, b := c.config.Redis, other.config.Redis
	switch {
	case c.redis == other.redis:
		return true
	case a.DialCtxFn != nil || b.DialCtxFn != nil || a.Sentinel.MasterSet != b.Sentinel.MasterSet:
		return false
	}
	return slices.ContainsFunc(a.InitAddress, func(address string) bool { return slices.Contains(b.InitAddress, address) })
}
