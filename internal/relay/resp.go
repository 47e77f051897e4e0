package relay

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// A message is one complete RESP value as it came.
type message struct {
	raw  []byte
	kind byte     // its first byte: '*' array, '>' push, '-' error, ...
	args []string // the strings in it, from all depths
}

// read returns the next message. RESP3's streamed types are not understood; no
// server sends them.
func read(r *bufio.Reader) (m message, err error) {
	if err := m.read(r); err != nil {
		return m, err
	}
	m.kind = m.raw[0]
	return m, nil
}

func (m *message) read(r *bufio.Reader) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	m.raw = append(m.raw, line...)
	if len(line) < 3 {
		return fmt.Errorf("relay: not RESP: %q", line)
	}
	text := string(line[1 : len(line)-2])
	n, parts := 0, 1
	switch line[0] {
	case '$', '=', '!':
		if n, err = strconv.Atoi(text); err != nil || n < 0 {
			return err
		}
		bulk := make([]byte, n+2)
		if _, err := io.ReadFull(r, bulk); err != nil {
			return err
		}
		m.raw = append(m.raw, bulk...)
		m.args = append(m.args, string(bulk[:n]))
		return nil
	case '%', '|':
		parts = 2
	case '*', '~', '>':
	default:
		m.args = append(m.args, text)
		return nil
	}
	if n, err = strconv.Atoi(text); err != nil {
		return err
	}
	if n *= parts; line[0] == '|' {
		n++ // attributes stand before the value that they are about
	}
	for range n {
		if err := m.read(r); err != nil {
			return err
		}
	}
	return nil
}
