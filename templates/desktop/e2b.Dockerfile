FROM e2bdev/base

# The programs that the clients call by name, a desktop, a browser and an editor.  noVNC is where the clients look for it.
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--path-exclude=/usr/share/doc/* -o Dpkg::Options::=--path-exclude=/usr/share/man/* \
    xvfb x11-utils x11-xserver-utils xdotool scrot x11vnc novnc websockify net-tools procps xdg-utils libgtk-3-bin dbus-x11 \
    xfce4-session xfwm4 xfdesktop4 xfce4-panel xfce4-settings xfce4-terminal thunar exo-utils \
    adwaita-icon-theme librsvg2-common fonts-dejavu-core firefox-esr p11-kit-modules mousepad sudo curl \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log \
 && ln -s /usr/share/novnc /opt/noVNC && test -x /opt/noVNC/utils/novnc_proxy \
 && ln -s "$(find /usr/lib -name p11-kit-trust.so)" /usr/local/lib/p11-kit-trust.so \
 && fc-cache -f

# Windows are drawn by the processor: no shadows.  Firefox trusts what the system trusts.  There is no bus for assistive programs.
COPY xfwm4.xml /etc/xdg/xfce4/xfconf/xfce-perchannel-xml/xfwm4.xml
COPY firefox.js /etc/firefox-esr/sandglass.js
COPY policies.json /etc/firefox/policies/policies.json
ENV NO_AT_BRIDGE=1

USER user
WORKDIR /home/user
