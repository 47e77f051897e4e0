package idempotent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// longestKey is how long a key may be, in bytes.
const longestKey = 255

// parseKey reads the header: one structured string (RFC 8941), as "8e03978e-40d5-43dd-bc93-6894a57f9324" in its quotes.
func parseKey(values []string) (key string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	text := strings.TrimSpace(values[0])
	if len(text) < 3 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", false
	}
	var b strings.Builder
	for rest := text[1 : len(text)-1]; rest != ""; rest = rest[1:] {
		switch c := rest[0]; {
		case c == '\\':
			if rest = rest[1:]; rest == "" || rest[0] != '"' && rest[0] != '\\' {
				return "", false
			}
			b.WriteByte(rest[0])
		case c == '"' || c < 0x20 || c > 0x7e:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), b.Len() <= longestKey
}

// A request is one with a key.
type request struct {
	key   string // of the flight
	print string // a fingerprint
	body  []byte
}

// read reads the body of a request that has the key.
func (g *Guard) read(r *http.Request, key string) (q request, err error) {
	if r.Body != nil {
		q.body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, g.o.MostBody))
	}
	q.key = g.o.Prefix + hash(g.o.Who(r), r.Method, r.URL.Path, key)
	q.print = hash(r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(q.body))
	return q, err
}

func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

type keyOf struct{}

// Key returns the key of the request whose handler has the context: a hash of the client, the method, the path and the header, for a
// unique column beside the effect. It is "" in a handler without a key.
func Key(ctx context.Context) string {
	key, _ := ctx.Value(keyOf{}).(string)
	return key
}
