package terms

import "context"

type freshKey struct{}

// WithFresh returns a context that says whether package once is to return values of functions that begin after the call only.
func WithFresh(ctx context.Context, fresh bool) context.Context {
	return context.WithValue(ctx, freshKey{}, fresh)
}

// IsFresh reports what the innermost WithFresh says, false if there is none.
func IsFresh(ctx context.Context) bool {
	fresh, _ := ctx.Value(freshKey{}).(bool)
	return fresh
}
