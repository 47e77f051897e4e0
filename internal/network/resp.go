package network

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// errNotRESP means that a line begins no RESP value.
var errNotRESP = errors.New("network: not RESP")

// A splitter finds the messages in a stream. A message is one complete RESP value.
type splitter struct {
	rest []byte // the beginning of an incomplete message
	// at is up to where rest was read, beyond its end within a long string, and values is
	// how many values of the message are still to be read. Both are sums of 32-bit
	// numbers that the stream chooses, so an int is too small where it has 32 bits.
	at, values int64
	opaque     bool // the stream is not RESP: everything is a chunk as it comes
}

// split returns the messages that data completes; at the end of the stream also the remaining
// bytes.
func (s *splitter) split(data []byte, end bool) (c chunk) {
	s.rest = append(s.rest, data...)
	from := 0
	for !s.opaque {
		size, err := s.next(s.rest[from:])
		if s.opaque = err != nil; size == 0 {
			break
		}
		from += size
		c.lengths = append(c.lengths, size)
	}
	if s.opaque || end {
		if from < len(s.rest) {
			c.lengths = nil
		}
		from = len(s.rest)
	}
	c.data = s.rest[:from:from]
	s.rest = append([]byte(nil), s.rest[from:]...)
	return c
}

// next returns the length of the message at the beginning of data, or 0 if it is incomplete;
// then the next call continues there.
func (s *splitter) next(data []byte) (int, error) {
	if s.values == 0 {
		s.at, s.values = 0, 1
	}
	length := int64(len(data))
	for s.values > 0 && s.at < length {
		kind, n, size, err := header(data[s.at:])
		if err != nil || size == 0 {
			return 0, err
		}
		s.at += int64(size)
		s.values--
		switch kind {
		case text:
			s.at += n
		case aggregate:
			s.values += n
		}
	}
	if s.values > 0 || s.at > length {
		return 0, nil
	}
	return int(s.at), nil
}

// The kinds of values, by the data that follow their first line.
type kind int

const (
	line      kind = iota // nothing
	text                  // so many bytes
	aggregate             // so many values
)

// header reads the first line of a value. It returns the data that follow, and the length of
// the line, 0 if it is incomplete. RESP3's streamed types are not understood; no server sends
// them.
func header(data []byte) (k kind, n int64, size int, err error) {
	switch data[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		k = line
	case '$', '=', '!':
		k = text
	case '*', '~', '>', '%', '|':
		k = aggregate
	default:
		return 0, 0, 0, errNotRESP
	}
	if size = bytes.IndexByte(data, '\n') + 1; size == 0 || k == line {
		return k, 0, size, nil
	}
	n, err = strconv.ParseInt(string(data[1:max(size-len("\r\n"), 1)]), 10, 32)
	if err != nil {
		return 0, 0, 0, errNotRESP
	}
	if n < 0 { // null
		return line, 0, size, nil
	}
	switch {
	case k == text:
		n += int64(len("\r\n"))
	case data[0] == '%':
		n *= 2
	case data[0] == '|':
		n = n*2 + 1 // attributes precede the value that they describe
	}
	return k, n, size, nil
}

// texts returns the strings in a message, from all depths.
func texts(raw []byte) (all []string) {
	for len(raw) > 0 {
		kind, n, size, err := header(raw)
		if err != nil || size == 0 {
			return all
		}
		switch kind {
		case line:
			if raw[0] != '$' && raw[0] != '*' { // else null
				all = append(all, string(bytes.TrimSpace(raw[1:size])))
			}
			n = 0
		case text:
			all = append(all, string(raw[size:size+int(n)-len("\r\n")]))
		case aggregate:
			n = 0
		}
		raw = raw[size+int(n):]
	}
	return all
}

// subscribes reports whether a command is answered by pushes, as the commands that subscribe
// and unsubscribe are in RESP3.
func subscribes(command []byte) bool {
	_, rest, _ := bytes.Cut(command, []byte("\n")) // *n
	_, rest, _ = bytes.Cut(rest, []byte("\n"))     // $n
	name, _, _ := bytes.Cut(rest, []byte("\r"))
	const suffix = "SUBSCRIBE"
	return len(name) >= len(suffix) && strings.EqualFold(string(name[len(name)-len(suffix):]), suffix)
}
