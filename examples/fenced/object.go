package fenced

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-rlock/rlock/rlock"
)

// An object is one in a store with conditional writes. Its first line is the token of its last writer. In the metadata that
// would not do, since the ETag of S3 is a hash of the content alone.
type object interface {
	// get returns the token, the rest of the object, and its ETag: none if there is no object.
	get(ctx context.Context) (token uint64, text []byte, tag string, err error)
	// put replaces the object if it has that ETag, and returns the new one. Else the error is errOvertaken.
	put(ctx context.Context, token uint64, text []byte, tag string) (string, error)
}

var errOvertaken = errors.New("the write was rejected: a later holder has been here")

// edit changes the object, which need not exist.
func edit(ctx context.Context, o object, hold *rlock.Hold, change func([]byte) ([]byte, error)) error {
	token, err := hold.Token()
	if err != nil { // not a fenced lock
		return err
	}
	last, text, tag, err := o.get(ctx)
	if err != nil {
		return err
	}
	if last > token {
		return errOvertaken
	}
	if tag, err = o.put(ctx, token, text, tag); err != nil { // from here on no earlier holder can write
		return err
	}
	if text, err = change(text); err != nil {
		return err
	}
	_, err = o.put(ctx, token, text, tag)
	return err
}

// An httpObject is one that a PUT with If-Match replaces, as in S3.
type httpObject struct {
	client *http.Client // signs what it sends
	url    string
}

func (o httpObject) get(ctx context.Context) (token uint64, text []byte, tag string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url, nil)
	if err != nil {
		return 0, nil, "", err
	}
	response, err := o.client.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound:
		return 0, nil, "", nil
	case http.StatusOK:
	default:
		return 0, nil, "", errors.New(response.Status)
	}
	if text, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, "", err
	}
	line, text, _ := bytes.Cut(text, []byte("\n"))
	_, err = fmt.Sscan(string(line), &token)
	return token, text, response.Header.Get("ETag"), err
}

func (o httpObject) put(ctx context.Context, token uint64, text []byte, tag string) (string, error) {
	body := append(fmt.Appendln(nil, token), text...)
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, o.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	if tag == "" {
		request.Header.Set("If-None-Match", "*")
	} else {
		request.Header.Set("If-Match", tag)
	}
	response, err := o.client.Do(request)
	if err != nil {
		return "", err // the object may have been written
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return response.Header.Get("ETag"), nil
	case http.StatusPreconditionFailed, http.StatusConflict: // 409: another write is under way
		return "", errOvertaken
	}
	return "", errors.New(response.Status)
}
