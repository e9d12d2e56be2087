/* trust.h - where `sandglass trust` puts the certificate of a server's local authority. */
#pragma once
#include <stdbool.h>

#define TRUST_STORE "/usr/local/share/ca-certificates"
#define TRUST_NAME_MAX 32

/* "sandglass-<n>": the same for a data directory each time, so that a new certificate takes the old one's place and the
 * old one can be taken out when the directory is gone. */
void trust_name(const char *data_dir, char out[TRUST_NAME_MAX]);
/* Is the certificate of this data directory, as it is now, in the system's store?  False also when there is none. */
bool trust_is_installed(const char *data_dir);
