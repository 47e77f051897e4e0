package driver

import (
	"strings"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Package core knows this client as thisClient, and each other client of rlock as otherClient: it asks of
// them nothing but whether they linger.
const (
	thisClient  = 1
	otherClient = 2
)

// idOf returns the tenure of an owner in Redis, "<uuid>:<id>", the zero ID for an owner that is none of
// rlock's.
func (c *Client) idOf(owner string) core.ID {
	number, lingers, ok := wire.NumberOf(owner)
	if !ok {
		return core.ID{}
	}
	id := core.ID{Client: otherClient, Lingers: lingers, N: number}
	if strings.HasPrefix(owner, c.id.Prefix) {
		id.Client = thisClient
	}
	return id
}

// textOf returns the owner of a tenure of this client as it stands in Redis.
func (c *Client) textOf(id core.ID, o core.OwnerID) string {
	return c.id.Text(id.N, id.Lingers, uint64(o))
}

// member is a ticket as it stands in the queue.
func member(t core.Ticket, text string) wire.Member {
	modes := "xs"
	if t.Polls {
		modes = "XS"
	}
	return wire.Member{Mode: modes[t.Mode : t.Mode+1], Ticket: text}
}
