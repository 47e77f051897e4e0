package server

import (
	"encoding/binary"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Append appends what tells the server's state from others. Times are as seen from now, so that states that differ only
// by the time are one; name renames the tenures.
func (s *Server) Append(b []byte, now Time, name func(core.ID) byte) []byte {
	time := func(t Time) { b = binary.AppendVarint(b, int64(max(t-now, -1))) } // one past is like another
	b = append(b, byte(len(s.Holders)), byte(s.Mode))
	for _, h := range s.Holders {
		b = append(b, name(h.ID), byte(h.Owner), flag(h.Writes), byte(h.Count), byte(h.More))
		time(h.Ends)
	}
	b = append(b, byte(len(s.Queue)), byte(len(s.Marks)))
	for _, t := range s.Queue {
		b = append(b, name(t.ID), byte(t.Owner), byte(t.Mode)<<1|flag(t.Polls), byte(t.More))
	}
	for _, id := range s.Marks {
		b = append(b, name(id))
	}
	if len(s.Holders) > 0 {
		time(s.Ends)
	}
	if s.queueExists() {
		time(s.QueueEnds)
	}
	b = binary.AppendUvarint(b, s.Counter)
	return binary.AppendUvarint(b, uint64(s.Listens))
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}
