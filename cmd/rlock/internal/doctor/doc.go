// Package doctor looks at a Redis or Valkey as an operator would before it is trusted with
// locks, and says what could be lost, and what mends it.
//
// It changes nothing that stays: what it writes, to see whether the user may, has a name of
// its own and ends within a second. It needs no right: a question that the user may not ask is
// a finding.
//
// A server that refuses to write says why (OOM, NOREPLICAS, READONLY, ...). That is a finding
// about its memory, its replicas or its state, and not about the rights of the user, which
// a server looks at before.
//
// The levels: green is as it should be. Yellow is a risk in some event: a crash, a failover, a
// full server. Red is a server on which locks fail, or may be granted twice, without any
// such event.
package doctor
