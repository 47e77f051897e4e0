package once

import (
	"context"
	"encoding/json"
	"fmt"
)

// A Codec turns values into bytes and back.
type Codec[T any] struct {
	Encode func(T) ([]byte, error)
	Decode func([]byte) (T, error)
}

// JSON returns the codec of encoding/json.
func JSON[T any]() Codec[T] {
	return Codec[T]{
		Encode: func(v T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(text []byte) (v T, err error) {
			err = json.Unmarshal(text, &v)
			return v, err
		},
	}
}

// As is [Group.Do] with typed values. The caller whose function ran gets its own value. Each other
// caller gets a value of its own, which the codec has decoded. An error of Encode counts as an
// error of the function. An error of Decode goes to the caller alone, since another version of the
// program may have stored the value.
func As[T any](ctx context.Context, g *Group, c Codec[T], key string, fn func(context.Context) (T, error)) (value T, shared bool, err error) {
	var own T
	text, shared, err := g.Do(ctx, key, func(ctx context.Context) ([]byte, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		own = v
		text, err := c.Encode(v)
		if err != nil {
			return nil, fmt.Errorf("once: a value of %q cannot be encoded: %w", key, err)
		}
		return text, nil
	})
	switch {
	case err != nil:
		return value, shared, err
	case !shared:
		return own, false, nil
	}
	if value, err = c.Decode(text); err != nil {
		return value, true, fmt.Errorf("once: the value of %q cannot be decoded: %w", key, err)
	}
	return value, true, nil
}
