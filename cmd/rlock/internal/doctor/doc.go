// Package doctor examines a Redis or Valkey before it is trusted with locks. It reports risks, and
// the commands that remove them.
//
// It leaves nothing behind: its test keys have names of their own and expire within a second. It
// needs no right: a command that the user may not send is a finding.
//
// A server that refuses to write gives the reason (OOM, NOREPLICAS, READONLY, ...). The reason is a
// finding about the server's memory, replicas or state, and not about the rights of the user, which
// a server checks first.
//
// The levels: green is as it should be. Yellow is a risk in some event: a crash, a failover, a full
// server. Red is a server on which locks fail, or may be granted twice, without any such event.
package doctor
