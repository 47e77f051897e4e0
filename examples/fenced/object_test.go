package fenced

import (
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// A store has one object, with conditional writes and ETags as S3 documents them.
type store struct {
	mu      sync.Mutex
	content []byte // nil: there is no object
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(s.content)))
	match, noneMatch := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case r.Method == http.MethodGet && s.content != nil:
		w.Header().Set("ETag", tag)
		_, _ = w.Write(s.content)
	case s.content == nil && (r.Method == http.MethodGet || match != ""):
		w.WriteHeader(http.StatusNotFound)
	case noneMatch == "*" && s.content != nil, match != "" && match != tag:
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		s.content = body
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(body))))
	}
}

func TestAStaleHolderDoesNotWriteAnObject(t *testing.T) {
	store := new(store)
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	o := httpObject{server.Client(), server.URL + "/bucket/gear"}
	ctx, client := t.Context(), rlocktest.New(t)
	stale, valid := staleAndValid(t, client)
	text := func() string {
		_, text, _, err := o.get(ctx)
		require.NoError(t, err)
		return string(text)
	}
	adds := func(word string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return append(text, word...), nil }
	}

	err := edit(ctx, o, stale, func([]byte) ([]byte, error) { // a new object: it is stopped before it writes
		require.NoError(t, edit(ctx, o, valid, adds("a")))
		return []byte("stale"), nil
	})
	require.ErrorIs(t, err, errOvertaken)
	assert.Equal(t, "a", text())

	_, err = o.put(ctx, 1, []byte("stale"), "")
	require.ErrorIs(t, err, errOvertaken, "there was no object, and now there is one")
	require.ErrorIs(t, edit(ctx, o, stale, adds("stale")), errOvertaken, "it comes after a later holder")
	require.NoError(t, edit(ctx, o, valid, adds("b")), "a holder may write again")
	assert.Equal(t, "ab", text())

	require.NoError(t, valid.Release(ctx))
	stale = valid
	valid, err = client.NewFencedLock(lockName).Acquire(ctx)
	require.NoError(t, err)
	failed := errors.New("failed")
	err = edit(ctx, o, stale, func([]byte) ([]byte, error) { // the later holder has only begun
		err := edit(ctx, o, valid, func([]byte) ([]byte, error) { return nil, failed })
		require.ErrorIs(t, err, failed)
		return []byte("stale"), nil
	})
	require.ErrorIs(t, err, errOvertaken, "also before the later holder has changed the object")
	assert.Equal(t, "ab", text())
	assert.True(t, strings.HasPrefix(string(store.content), "3\n"), "%s", store.content)
}
