package address

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/spf13/pflag"
)

// Default is the server's address if none is given.
const Default = "127.0.0.1:6379"

// ErrUsage is wrapped by errors about flags, variables and URLs.
var ErrUsage = errors.New("bad address")

// Flags are the flags of a connection. The zero value is ready for [Flags.Add].
type Flags struct {
	url              string
	addresses        []string
	user, password   string
	passwordFile     string
	db               int
	tls              bool
	ca, cert, key    string
	serverName       string
	sentinel         string
	sentinelUser     string
	sentinelPassword string
	single           bool
}

// variables are the environment variables, by the flag that they replace.
var variables = map[string]string{
	"url": "RLOCK_URL", "addr": "RLOCK_ADDR", "user": "RLOCK_USER", "password": "RLOCK_PASSWORD",
	"password-file": "RLOCK_PASSWORD_FILE", "db": "RLOCK_DB", "tls": "RLOCK_TLS", "tls-ca": "RLOCK_TLS_CA",
	"tls-cert": "RLOCK_TLS_CERT", "tls-key": "RLOCK_TLS_KEY", "tls-server-name": "RLOCK_TLS_SERVER_NAME",
	"sentinel": "RLOCK_SENTINEL", "sentinel-user": "RLOCK_SENTINEL_USER", "sentinel-password": "RLOCK_SENTINEL_PASSWORD",
	"single": "RLOCK_SINGLE",
}

// places are the flags for the place of the server, which a URL has as well. Their variables do not
// lead a command with --url to another server.
var places = []string{"addr", "db", "sentinel"}

// Groups are the headings under which the flags are described, in their order.
var Groups = []string{serverGroup, tlsGroup, sentinelGroup}

const (
	serverGroup   = "The server"
	tlsGroup      = "TLS"
	sentinelGroup = "Sentinel"

	annotation = "group" // the key of the annotation of a flag that has its group
)

// GroupOf returns the group of a flag, "" if the flag is not one of a connection.
func GroupOf(flag *pflag.Flag) string {
	if group := flag.Annotations[annotation]; len(group) > 0 {
		return group[0]
	}
	return ""
}

// Add adds the flags to a set.
func (f *Flags) Add(set *pflag.FlagSet) {
	describe := func(flag, text string) string { return text + " [" + variables[flag] + "]" }
	set.StringVar(&f.url, "url", "", describe("url", "`redis://user:password@host:port/db`, or rediss:// for TLS"))
	set.StringSliceVar(&f.addresses, "addr", nil, describe("addr", "`host:port` of the server, of nodes of a Cluster, or of Sentinels; several with commas between them"))
	set.StringVar(&f.user, "user", "", describe("user", "user `name`"))
	set.StringVar(&f.password, "password", "", describe("password", "password; others can see it in the list of processes"))
	set.StringVar(&f.passwordFile, "password-file", "", describe("password-file", "`file` with the password"))
	set.IntVar(&f.db, "db", 0, describe("db", "`number` of the database"))
	set.BoolVar(&f.single, "single", false, describe("single", "use this one server, also if it is a node of a Cluster"))
	set.BoolVar(&f.tls, "tls", false, describe("tls", "use TLS"))
	set.StringVar(&f.ca, "tls-ca", "", describe("tls-ca", "`file` with the certificates to trust; implies --tls"))
	set.StringVar(&f.cert, "tls-cert", "", describe("tls-cert", "`file` with the client's certificate; implies --tls"))
	set.StringVar(&f.key, "tls-key", "", describe("tls-key", "`file` with its key"))
	set.StringVar(&f.serverName, "tls-server-name", "", describe("tls-server-name", "`name` in the server's certificate, if it is not the host"))
	set.StringVar(&f.sentinel, "sentinel", "", describe("sentinel", "`name` of the primary; --addr are Sentinels"))
	set.StringVar(&f.sentinelUser, "sentinel-user", "", describe("sentinel-user", "user `name` for the Sentinels"))
	set.StringVar(&f.sentinelPassword, "sentinel-password", "", describe("sentinel-password", "password for the Sentinels"))
	for flag := range variables {
		group := serverGroup
		switch {
		case strings.HasPrefix(flag, "tls"):
			group = tlsGroup
		case strings.HasPrefix(flag, "sentinel"):
			group = sentinelGroup
		}
		_ = set.SetAnnotation(flag, annotation, []string{group}) // the flag is known
	}
}

// Option returns the option of the connection, after the set that Add has got was parsed. Errors
// wrap [ErrUsage].
func (f *Flags) Option(set *pflag.FlagSet) (rueidis.ClientOption, error) {
	passwordGiven := set.Changed("password") || set.Changed("password-file")
	urlGiven := set.Changed("url")
	for flag, variable := range variables {
		value, ok := os.LookupEnv(variable)
		given := set.Changed(flag) || passwordGiven && strings.HasPrefix(flag, "password") || urlGiven && slices.Contains(places, flag)
		if !ok || value == "" || given {
			continue
		}
		if err := set.Set(flag, value); err != nil {
			return rueidis.ClientOption{}, fmt.Errorf("%w: the value of %s cannot be read", ErrUsage, variable)
		}
	}
	option := rueidis.ClientOption{InitAddress: []string{Default}}
	if f.url != "" {
		var err error
		if option, err = rueidis.ParseURL(f.url); err != nil {
			return option, fmt.Errorf("%w: the URL cannot be read: %s: use redis://user:password@host:port/db, with / and @ in the password as %%2F and %%40", ErrUsage, harmless(err))
		}
	}
	if len(f.addresses) > 0 {
		option.InitAddress = f.addresses
	}
	if f.user != "" {
		option.Username = f.user
	}
	if f.password != "" && f.passwordFile != "" {
		return option, fmt.Errorf("%w: the password is given twice: use --password-file (RLOCK_PASSWORD_FILE) or --password (RLOCK_PASSWORD)", ErrUsage)
	}
	if f.passwordFile != "" {
		text, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return option, fmt.Errorf("%w: --password-file: %w", ErrUsage, err)
		}
		option.Password = strings.TrimRight(string(text), "\r\n")
	}
	if f.password != "" {
		option.Password = f.password
	}
	if f.db < 0 {
		return option, fmt.Errorf("%w: --db is negative: use 0 or above", ErrUsage)
	}
	if set.Changed("db") {
		option.SelectDB = f.db
	}
	option.ForceSingleClient = option.ForceSingleClient || f.single
	if err := f.addTLS(&option); err != nil {
		return option, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if f.sentinel != "" {
		option.Sentinel.MasterSet = f.sentinel
	}
	if option.Sentinel.MasterSet != "" && option.Sentinel.TLSConfig == nil {
		option.Sentinel.TLSConfig = option.TLSConfig
	}
	if f.sentinelUser != "" {
		option.Sentinel.Username = f.sentinelUser
	}
	if f.sentinelPassword != "" {
		option.Sentinel.Password = f.sentinelPassword
	}
	return option, nil
}

func (f *Flags) addTLS(option *rueidis.ClientOption) error {
	if f.tls || f.ca != "" || f.cert != "" {
		if option.TLSConfig == nil {
			option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	if option.TLSConfig == nil {
		return nil
	}
	if f.serverName != "" {
		option.TLSConfig.ServerName = f.serverName
	}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("--tls-ca: %w", err)
		}
		option.TLSConfig.RootCAs = x509.NewCertPool()
		if !option.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("--tls-ca: %s has no certificate in PEM", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		option.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// harmless describes the fault of a URL without the URL itself, which may have a password.
func harmless(err error) string {
	if parse := (*url.Error)(nil); errors.As(err, &parse) {
		if strings.Contains(parse.Err.Error(), "port") { // the text of the error may have a password for the port
			return "the port is wrong"
		}
		return "it is malformed"
	}
	return "its scheme, database or query is wrong"
}
