package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/cli"
)

// S3 contains the values of the flags that configure an S3-compatible store.
type S3 struct {
	URL, Endpoint, Region, Lookup string
	Layout                        string
	Formats                       cli.List
}

var lookups = map[string]minio.BucketLookupType{"auto": minio.BucketLookupAuto, "path": minio.BucketLookupPath, "dns": minio.BucketLookupDNS}

// Register adds all flags with their defaults.
func (c *S3) Register(fs *flag.FlagSet) {
	c.Formats = cli.List{"parquet"}
	fs.StringVar(&c.URL, "s3.url", "", "`URL` of a bucket to file the tables in, such as s3://bucket/prefix; credentials come from AWS's variables and files, or a role")
	c.RegisterStore(fs)
	fs.TextVar(&c.Formats, "s3.format", c.Formats, "comma-separated `formats` of the files in the bucket: "+strings.Join(Formats(), ", "))
	fs.StringVar(&c.Layout, "s3.layout", LayoutTables, LayoutHelp)
}

// RegisterStore adds the flags of the S3-compatible store, but not the flags of the files in it.
func (c *S3) RegisterStore(fs *flag.FlagSet) {
	fs.StringVar(&c.Endpoint, "s3.endpoint", "https://s3.amazonaws.com", "`URL` of the S3-compatible store")
	fs.StringVar(&c.Region, "s3.region", "", "`region` of the bucket; default is the variable AWS_REGION, or the region that the store reports")
	fs.StringVar(&c.Lookup, "s3.lookup", "auto", "`place` of the bucket's name in request URLs: "+strings.Join(slices.Sorted(maps.Keys(lookups)), ", "))
}

// requestTimeout is the time limit of a request with its retries.
const requestTimeout = 2 * time.Minute

// The tag of a file in a bucket is its ETag.
type bucket struct {
	client *minio.Core
	bucket string
	prefix string
}

// OpenS3 returns a sink in a bucket of an S3-compatible store. Several programs can use the bucket at the same time: if
// another program has changed a file, the store rejects the write.
func OpenS3(ctx context.Context, c S3) (*Sink, error) {
	formats, err := choose(c.Formats)
	if err != nil {
		return nil, err
	}
	b, err := newBucket(c, urlFlag)
	if err != nil {
		return nil, err
	}
	if err := b.probe(ctx); err != nil {
		return nil, err
	}
	return newSink(b, formats, true), nil
}

// Validate checks the flags. It accepts all values if no bucket is set.
func (c *S3) Validate() error {
	if c.URL == "" {
		return nil
	}
	if _, err := choose(c.Formats); err != nil {
		return fmt.Errorf("--s3.format: %w", err)
	}
	if err := CheckLayout("--s3.layout", c.Layout); err != nil {
		return err
	}
	_, err := newBucket(*c, urlFlag)
	return err
}

const urlFlag = "--s3.url"

// newBucket does not connect to the store. flag is the flag that sets the URL, for use in errors.
func newBucket(c S3, flag string) (*bucket, error) {
	at, err := parseURL(c.URL, "s3")
	if err != nil || at.Scheme != "s3" {
		return nil, errors.New(flag + " must be a URL such as s3://bucket/prefix, without credentials")
	}
	endpoint := c.Endpoint
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	store, err := parseURL(endpoint, "http", "https")
	if err != nil || strings.Trim(store.Path, "/") != "" {
		return nil, errors.New("--s3.endpoint must be a URL such as https://s3.example.com:9000, without path and credentials")
	}
	lookup, ok := lookups[c.Lookup]
	if !ok {
		return nil, fmt.Errorf("--s3.lookup=%s: must be one of %s", c.Lookup, strings.Join(slices.Sorted(maps.Keys(lookups)), ", "))
	}
	client, err := minio.NewCore(store.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure:       store.Scheme == "https",
		Region:       cmp.Or(c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		BucketLookup: lookup,
	})
	if err != nil {
		return nil, err
	}
	return &bucket{client, at.Host, strings.Trim(at.Path, "/")}, nil
}

// The errors of parseURL do not contain the URL, which may contain a password.
func parseURL(text string, schemes ...string) (*url.URL, error) {
	at, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, at.Scheme) || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return nil, errors.New("invalid URL")
	}
	return at, nil
}

// probe checks the credentials and the bucket. It also checks that the store supports conditional writes: the store
// must reject the replacement of an object that does not exist.
func (b *bucket) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := b.signed(); err != nil {
		return err
	}
	exists, err := b.client.BucketExists(ctx, b.bucket)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", b.bucket, err)
	}
	if !exists {
		return fmt.Errorf("bucket %s does not exist", b.bucket)
	}
	_, err = b.write(ctx, ".gpuledger-archive", nil, "00000000000000000000000000000000")
	switch {
	case err == nil:
		return errors.New("the store ignores If-Match, so two programs could overwrite each other's rows: use a store that supports conditional writes")
	case errors.Is(err, errChanged):
		return nil
	}
	return fmt.Errorf("test a conditional write to the bucket %s: %w", b.bucket, err)
}

func (b *bucket) signed() error {
	value, err := b.client.GetCreds()
	if err == nil && value.AccessKeyID == "" {
		err = errors.New("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SHARED_CREDENTIALS_FILE, or a role of the container or machine")
	}
	return err
}

func (b *bucket) Close() error { return nil }

// open reads the whole object. It is small, because it contains only one day.
func (b *bucket) open(ctx context.Context, name, known string) (content, string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var options minio.GetObjectOptions
	if known != "" {
		if err := options.SetMatchETagExcept(known); err != nil {
			return nil, "", err
		}
	}
	body, info, _, err := b.client.GetObject(ctx, b.bucket, path.Join(b.prefix, name), options)
	switch {
	case status(err) == http.StatusNotModified:
		return nil, known, nil
	case missing(err):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	defer body.Close()
	if info.ETag == "" {
		return nil, "", errors.New("the store returns no ETag")
	}
	data, err := io.ReadAll(body)
	return object{bytes.NewReader(data)}, info.ETag, err
}

func (b *bucket) list(ctx context.Context, of listing, each func(info)) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	prefix := path.Join(b.prefix, of.folder) + "/"
	for object := range b.client.Client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: of.deep}) {
		if object.Err != nil {
			return fmt.Errorf("list %s: %w", prefix, object.Err)
		}
		rest := strings.TrimPrefix(object.Key, prefix)
		folder := strings.HasSuffix(rest, "/")
		if rest != "" && !(folder && of.deep) { // an object with the folder's own name only marks the folder
			each(info{path.Join(of.folder, rest), object.Size, folder})
		}
	}
	return nil
}

func (b *bucket) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := b.client.RemoveObject(ctx, b.bucket, path.Join(b.prefix, name), minio.RemoveObjectOptions{}); err != nil && !missing(err) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

func (b *bucket) write(ctx context.Context, name string, data []byte, tag string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := minio.PutObjectOptions{DisableMultipart: true, SendContentMd5: true}
	if tag == "" {
		options.SetMatchETagExcept("*")
	} else {
		options.SetMatchETag(tag)
	}
	info, err := b.client.Client.PutObject(ctx, b.bucket, path.Join(b.prefix, name), bytes.NewReader(data), int64(len(data)), options)
	if missing(err) || status(err) == http.StatusPreconditionFailed || status(err) == http.StatusConflict {
		return "", fmt.Errorf("%w: %w", errChanged, err)
	}
	return info.ETag, permanent.If(permanent.Status(status(err)), err)
}

// status returns the HTTP status of a failed request, or 0 if there was no response.
func status(err error) int { return minio.ToErrorResponse(err).StatusCode }

func missing(err error) bool {
	return status(err) == http.StatusNotFound && minio.ToErrorResponse(err).Code != minio.NoSuchBucket
}
